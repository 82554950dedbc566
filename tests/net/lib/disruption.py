# SPDX-License-Identifier: Apache-2.0
"""Client and server of the disruption gate's flows, which never pause.

usage: disruption.py serve NAME PORT ADDRESS...   answers each line on TCP and each datagram with "NAME " before it
       disruption.py talk PATH...                 PATH: TITLE=ADDRESS=PORT=NAME,...; three flows each, to one of the NAMEs:
                        TCP, UDP from a connected socket and UDP from one that is not. On each a numbered line goes out as
                        soon as the answer to the last one is there, from begin to end through the same socket.

talk prints "flow PROTOCOL CLIENT" for each flow when all are open, "round N" at the Nth SIGUSR1 once every flow has begun
and ended an exchange since, "broken TITLE: WHY" when an answer is not the expected one of the expected backend or does not
come, and at SIGTERM "talked TITLE: ..." for each flow; its exit code is 1 when any was broken."""

import selectors
import signal
import socket
import struct
import sys
import time

TIMEOUT = 15  # seconds; generous, because nothing between both ends delays packets
TRIES = 400    # until one of the wanted backends answers
SEGMENTS_SENT_AGAIN = 100  # offset of tcpi_total_retrans in struct tcp_info


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


# ---- The answering end. ----

class Server:
    def __init__(self, name, port, addresses):
        self.name = name.encode() + b" "
        self.selector = selectors.DefaultSelector()
        for address in addresses:
            listener = socket.create_server((address, port), family=family_of(address), backlog=512)
            self.selector.register(listener, selectors.EVENT_READ, self.accept)
            datagrams = socket.socket(family_of(address), socket.SOCK_DGRAM)
            datagrams.bind((address, port))
            self.selector.register(datagrams, selectors.EVENT_READ, self.echo)

    def accept(self, listener):
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rest = [b""]
        self.selector.register(connection, selectors.EVENT_READ, lambda sock: self.lines(sock, rest))

    def lines(self, connection, rest):
        try:
            data = connection.recv(65536)
            *whole, rest[0] = (rest[0] + data).split(b"\n")
            connection.sendall(b"".join(self.name + line + b"\n" for line in whole))
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(connection)
            connection.close()

    def echo(self, datagrams):
        try:
            data, peer = datagrams.recvfrom(2048)
            datagrams.sendto(self.name + data, peer)
        except OSError:
            pass  # an ICMP error about a client that has ended

    def run(self):
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


# ---- The asking end. ----

class Unexpected(Exception):
    """A wrong answer, or none."""


class Flow:
    """One socket. The subclasses implement what differs between TCP and both kinds of UDP."""

    def __init__(self, title, where):
        self.title, self.where = f"{title} {self.kind}", where
        self.sock = socket.socket(family_of(where[0]), self.type)
        self.sock.settimeout(TIMEOUT)
        self.number, self.name, self.since = 0, None, time.monotonic()

    def client(self):
        """The client's address and port in the format of `sluice flows`; an unconnected socket has no local address."""
        with socket.socket(self.sock.family, socket.SOCK_DGRAM) as probe:
            probe.connect(self.where)
            address = probe.getsockname()[0]
        port = self.sock.getsockname()[1]
        return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    def ask(self):
        self.number += 1
        self.since = time.monotonic()
        self.send(b"%d\n" % self.number)

    def heard(self):
        """Reads the answer to the last question. Returns the backend's name, or None while the answer is incomplete."""
        answer = self.receive()
        if answer is None:
            return None
        name, _, number = answer.decode().partition(" ")
        if number != f"{self.number}\n" or name != (self.name or name):
            raise Unexpected(f"after '{self.name} {self.number}' was asked for came {answer!r}")
        return name

    def report(self):
        return f"{self.title}: {self.number} exchanges with {self.name}"


class Tcp(Flow):
    kind, protocol, type = "tcp", "TCP", socket.SOCK_STREAM

    def __init__(self, title, where):
        super().__init__(title, where)
        self.rest = b""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect(where)

    def send(self, data):
        self.sock.sendall(data)

    def receive(self):
        data = self.sock.recv(4096)
        if not data:
            raise Unexpected(f"closed at line {self.number}")
        self.rest += data
        if not self.rest.endswith(b"\n"):
            return None
        answer, self.rest = self.rest, b""
        return answer

    def report(self):
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        again = struct.unpack_from("=I", info, SEGMENTS_SENT_AGAIN)[0]
        return super().report() + (f", {again} segments sent again" if again else "")


class ConnectedUdp(Flow):
    kind, protocol, type = "udp", "UDP", socket.SOCK_DGRAM

    def __init__(self, title, where):
        super().__init__(title, where)
        self.sock.connect(where)

    def send(self, data):
        self.sock.send(data)

    def receive(self):
        return self.sock.recv(4096)


class UnconnectedUdp(Flow):
    kind, protocol, type = "udp-unconnected", "UDP", socket.SOCK_DGRAM

    def send(self, data):
        self.sock.sendto(data, self.where)

    def receive(self):
        answer, peer = self.sock.recvfrom(4096)
        if peer[:2] != self.where:
            raise Unexpected(f"answer {self.number} came from {peer[0]} port {peer[1]}")
        return answer


def opened(kind, title, where, names):
    """Opens a flow to one of these backends; the service may choose others, then it is opened again."""
    for _ in range(TRIES):
        flow = kind(title, where)
        flow.ask()
        name = None
        while name is None:
            name = flow.heard()
        if name in names:
            flow.name = name
            return flow
        flow.sock.close()
    raise Unexpected(f"{title}: none of {names} answers")


class Talk:
    def __init__(self, flows):
        self.flows, self.rounds, self.marks, self.ended, self.broken = set(flows), 0, None, False, False
        self.selector = selectors.DefaultSelector()
        for flow in flows:
            self.selector.register(flow.sock, selectors.EVENT_READ, flow)
            flow.ask()

    def begin_round(self, *_):
        self.marks = {flow: flow.number for flow in self.flows}

    def end(self, *_):
        self.ended = True

    def end_round(self):
        # Question N was sent before the round began, N + 1 is the first one since, and only its answer allows N + 2.
        if self.marks is not None and all(flow.number >= mark + 2 for flow, mark in self.marks.items()
                                          if flow in self.flows):
            self.marks = None
            self.rounds += 1
            print(f"round {self.rounds}", flush=True)

    def give_up(self, flow, why):
        self.broken = True
        self.flows.remove(flow)
        self.selector.unregister(flow.sock)
        print(f"broken {flow.report()}: {why}", flush=True)

    def give_up_the_silent(self, now):
        for flow in [flow for flow in self.flows if now - flow.since > TIMEOUT]:
            self.give_up(flow, f"no answer to {flow.number} in {TIMEOUT} s")

    def run(self):
        looked = time.monotonic()
        while not self.ended:
            for key, _ in self.selector.select(0.2):
                try:
                    if key.data.heard():
                        key.data.ask()
                except (OSError, Unexpected) as error:
                    self.give_up(key.data, error)
            self.end_round()
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                self.give_up_the_silent(looked)
        for flow in sorted(self.flows, key=lambda flow: flow.title):
            print("talked", flow.report(), flush=True)


def talk(paths):
    flows = []
    for path in paths:
        title, address, port, names = path.split("=")
        for kind in (Tcp, ConnectedUdp, UnconnectedUdp):
            flows.append(opened(kind, title, (address, int(port)), names.split(",")))
    talking = Talk(flows)
    signal.signal(signal.SIGUSR1, talking.begin_round)
    signal.signal(signal.SIGTERM, talking.end)
    for flow in flows:
        print(f"flow {flow.protocol} {flow.client()}", flush=True)
    print("open", flush=True)
    talking.run()
    sys.exit(1 if talking.broken else 0)


def main():
    if sys.argv[1] == "serve":
        Server(sys.argv[2], int(sys.argv[3]), sys.argv[4:]).run()
    talk(sys.argv[2:])


main()
