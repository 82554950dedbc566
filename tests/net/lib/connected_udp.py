# SPDX-License-Identifier: Apache-2.0
"""Uses one connected UDP socket: prints "answered NAME" for the first answer and each from another server than the one
before, and "error: REASON" when the socket fails.

With --as-user it is not root's, as most pods' processes. With --inherited a child alone has the socket, and it writes for ever, as clients of statsd do.
"""

import ctypes
import os
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


def become_user():
    """As after exec: /proc/PID/fd is that user's."""
    os.setgroups([])
    os.setgid(1000)
    os.setuid(1000)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)


def write_for_ever(connected):
    """Its errors end nothing. The caller waits in another process, whose end ends this one."""
    if os.fork():
        connected.close()
        os.wait()
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    while True:
        time.sleep(0.02)
        try:
            connected.send(b"gauge:1|g")
        except OSError:
            pass


def ask_until_error(connected):
    server = None
    for _ in range(400):
        try:
            connected.send(b"who?")
            answer = connected.recv(100).decode().split()[0]
        except TimeoutError:  # a server that is gone does not answer
            continue
        except OSError as error:
            print("error:", os.strerror(error.errno), flush=True)
            break
        if answer != server:
            server = answer
            print("answered", server, flush=True)
        time.sleep(0.05)


*options, address, port = sys.argv[1:]
if "--as-user" in options:
    become_user()
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as connected:
    connected.settimeout(1)
    connected.connect((address, int(port)))
    if "--inherited" in options:
        write_for_ever(connected)
    else:
        ask_until_error(connected)
