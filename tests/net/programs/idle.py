# SPDX-License-Identifier: Apache-2.0
"""Many connections that are idle for a while: each asks memcached for its version, is idle, and asks again.

usage: idle.py ADDRESS PORT COUNT SECONDS"""

import resource
import socket
import sys
import time

QUESTION, ANSWER = b"version\r\n", b"VERSION "


def ask(connection):
    connection.sendall(QUESTION)
    return connection.recv(100).startswith(ANSWER)


def main():
    service, count = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
    connections = [socket.create_connection(service, 60) for _ in range(count)]
    wrong = sum(not ask(connection) for connection in connections)
    time.sleep(float(sys.argv[4]))
    silent = 0
    for connection in connections:
        try:
            silent += not ask(connection)
        except OSError:
            silent += 1
    if wrong or silent:
        sys.exit(f"of {count} connections {wrong} were not answered at first, and {silent} after the silence")
    print(f"{count} connections, silent for {sys.argv[4]} s")


main()
