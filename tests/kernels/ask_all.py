# SPDX-License-Identifier: Apache-2.0
"""Sends requests to services, each by a new connection or socket, until a backend of this node and a backend of another node have answered.

usage: ask_all.py PROTOCOL ADDRESS PORT...: tcp or udp, for one or several services. Fails at the first request that fails, and if 60 answers
come only from this node's backend (web-pod), or only from others."""

import http.client
import socket
import sys

LOCAL = "web-pod"
TIMEOUT = 5


def tcp(address, port):
    connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT)
    connection.request("GET", "/")
    answer = connection.getresponse().read()
    connection.close()
    return answer


def udp(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(TIMEOUT)
        sock.sendto(b"who?\n", (address, port))
        answer, peer = sock.recvfrom(65535)
        if peer[:2] != (address, port):
            sys.exit(f"udp {address} {port}: the answer came from {peer[:2]}")
        return answer


def check(protocol, address, port):
    """Exits with a message unless both kinds of backends answer."""
    seen = set()
    for count in range(60):
        try:
            seen.add({"tcp": tcp, "udp": udp}[protocol](address, port).split()[0].decode())
        except OSError as error:
            sys.exit(f"{protocol} {address} {port}: {error}, after {count} answers from {sorted(seen)}")
        if LOCAL in seen and len(seen) > 1:
            return
    sys.exit(f"{protocol} {address} {port}: only {sorted(seen)} answer")


def main():
    words = iter(sys.argv[1:])
    for protocol in words:
        check(protocol, next(words), int(next(words)))


main()
