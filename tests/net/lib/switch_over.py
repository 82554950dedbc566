# SPDX-License-Identifier: Apache-2.0
"""Clients that must not notice a change of the service proxy.

usage: switch_over.py keep tcp|udp ADDRESS PORT DIRECTORY    ten requests a second on one socket, all to the same backend
       switch_over.py fresh tcp|udp ADDRESS PORT DIRECTORY   a new socket for each request
       switch_over.py once tcp ADDRESS PORT DIRECTORY        the same, from a port that it has not used before
       switch_over.py busy tcp ADDRESS PORT DIRECTORY        as keep, on many sockets at the same time, and without a pause

keep prints "open" after its first response. When DIRECTORY/stop appears, all print the number of responses, and exit. Another
backend, a closed connection and five seconds without a response are errors; a lost datagram is sent again after a second."""

import http.client
import itertools
import pathlib
import socket
import sys
import time

TIMEOUT = 5  # seconds
DATAGRAMS = 5  # attempts for one request, a second apart
BUSY = 64  # sockets
OWN_PORTS = (10000, 30000)  # no kernel gives these to other sockets


class Tcp:
    def __init__(self, address, port, source_port=0):
        source = ("::" if ":" in address else "0.0.0.0", source_port)
        self.connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT, source_address=source if source_port else None)
        self.connection.connect()
        self.connection.auto_open = False

    def ask(self):
        self.connection.request("GET", "/")
        return self.connection.getresponse().read().split()[0].decode()

    def close(self):
        self.connection.close()


class Udp:
    def __init__(self, address, port):
        self.socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(1)
        self.socket.connect((address, port))

    def ask(self):
        for _ in range(DATAGRAMS):
            self.socket.send(b"who?")
            try:
                return self.socket.recv(100).split()[0].decode()
            except TimeoutError:
                continue
        raise TimeoutError("no answer to any datagram")

    def close(self):
        self.socket.close()


def keep(kind, address, port, stop):
    flow, first, count = kind(address, port), None, 0
    while not stop.exists():
        who = flow.ask()
        if first is None:
            first = who
            print("open", flush=True)
        if who != first:
            sys.exit(f"{who} answers instead of {first}, after {count} answers")
        count += 1
        time.sleep(0.1)
    return count


def fresh(kind, address, port, stop, ports=itertools.repeat(())):
    count = 0
    while not stop.exists():
        flow = kind(address, port, *next(ports))
        flow.ask()
        flow.close()
        count += 1
        time.sleep(0.05)
    return count


def busy(kind, address, port, stop):
    """Asks on every socket before it reads any answer, so that a packet of each is under way at nearly any time."""
    flows, first, count = [kind(address, port) for _ in range(BUSY)], None, 0
    while not stop.exists():
        for flow in flows:
            flow.connection.request("GET", "/")
        answers = [flow.connection.getresponse().read().split()[0].decode() for flow in flows]
        if first is None:
            first = answers
            print("open", flush=True)
        if answers != first:
            sys.exit(f"other backends answer, after {count} answers: {answers} instead of {first}")
        count += len(answers)
    return count


def once(kind, address, port, stop):
    return fresh(kind, address, port, stop, zip(range(*OWN_PORTS)))


what, protocol, where, at, directory = sys.argv[1:]
try:
    answers = {"keep": keep, "fresh": fresh, "once": once, "busy": busy}[what](
        Tcp if protocol == "tcp" else Udp, where, int(at), pathlib.Path(directory) / "stop")
except OSError as error:
    sys.exit(f"{type(error).__name__}: {error}, at {time.strftime('%H:%M:%S')}")
print(answers)
