# SPDX-License-Identifier: Apache-2.0
"""Sends random bytes to an echo server and checks that they return unchanged: as a stream over TCP, SCTP or MPTCP, as datagrams over UDP.

usage: bulk.py serve PROTOCOL PORT ADDRESS...: the echo server; prints "ready" when it listens.
       bulk.py ask PROTOCOL ADDRESS PORT [BYTES [CONNECTIONS]]: sends BYTES on each of CONNECTIONS; fails at the first wrong byte.

Protocols: TCP, MPTCP, UDP (lost datagrams are sent again), SCTP (one-to-one sockets), SCTP-MANY (one-to-many: one socket for all
associations)."""

import random
import socket
import sys
import threading
import time

SOCKETS = {
    "TCP": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "MPTCP": (socket.SOCK_STREAM, 262),
    "UDP": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "SCTP": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
    "SCTP-MANY": (socket.SOCK_SEQPACKET, socket.IPPROTO_SCTP),
}
PIECE = 1000  # bytes; an SCTP message of this size fits in one packet
TIMEOUT = 60  # seconds for one piece
WINDOW = 16  # datagrams in flight
RETRANSMIT = 0.5  # seconds until a datagram without an answer is sent again


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def open_socket(protocol, address):
    return socket.socket(family_of(address), *SOCKETS[protocol])


def echo(connection):
    with connection:
        while piece := connection.recv(1 << 16):
            connection.sendall(piece)


def echo_datagrams(server):
    while True:
        piece, peer = server.recvfrom(1 << 16)
        if piece:
            server.sendto(piece, peer)


def serve_address(protocol, address, port, ready):
    server = open_socket(protocol, address)
    server.bind((address, port))
    if protocol != "UDP":
        server.listen(64)
    ready.release()
    if protocol in ("UDP", "SCTP-MANY"):
        echo_datagrams(server)
    while True:
        threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()


def serve(protocol, port, addresses):
    ready = threading.Semaphore(0)
    for address in addresses:
        threading.Thread(target=serve_address, args=(protocol, address, port, ready)).start()
    for _ in addresses:
        ready.acquire()
    print("ready", flush=True)


def received(connection, count):
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            sys.exit(f"the connection ended after {len(data)} bytes of {count}")
        data += piece
    return bytes(data)


def stream(protocol, address, port, data):
    """Checks that all data returns, from the destination address."""
    with open_socket(protocol, address) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect((address, port))
        if connection.getpeername()[:2] != (address, port):
            sys.exit(f"the peer is {connection.getpeername()[:2]}")
        for at in range(0, len(data), 64 * PIECE):
            window = data[at:at + 64 * PIECE]
            for begin in range(0, len(window), PIECE):
                connection.sendall(window[begin:begin + PIECE])
            if received(connection, len(window)) != window:
                sys.exit(f"a wrong byte after byte {at}")


def many(address, port, data, associations):
    """Checks one-to-many sockets: each association begins with its first message."""
    sockets = [open_socket("SCTP-MANY", address) for _ in range(associations)]
    for at in range(0, len(data), PIECE):
        for each in sockets:
            each.settimeout(TIMEOUT)
            each.sendto(data[at:at + PIECE], (address, port))
            piece, peer = each.recvfrom(1 << 16)
            if piece != data[at:at + PIECE] or peer[:2] != (address, port):
                sys.exit(f"{len(piece)} bytes from {peer[:2]} instead of {len(data[at:at + PIECE])}")


def datagrams(address, port, data):
    """Sends numbered datagrams, several at once; each must return unchanged, once or more often."""
    pieces = [number.to_bytes(4, "big") + data[at:at + PIECE] for number, at in enumerate(range(0, len(data), PIECE))]
    with open_socket("UDP", address) as connection:
        connection.connect((address, port))
        connection.settimeout(RETRANSMIT)
        deadline = time.monotonic() + TIMEOUT
        missing = set(range(len(pieces)))
        while missing:
            in_flight = sorted(missing)[:WINDOW]
            for number in in_flight:
                connection.send(pieces[number])
            try:
                while not missing.isdisjoint(in_flight):
                    piece = connection.recv(1 << 16)
                    if piece != pieces[int.from_bytes(piece[:4], "big") % len(pieces)]:
                        sys.exit(f"{len(piece)} bytes that were not sent")
                    missing.discard(int.from_bytes(piece[:4], "big"))
            except TimeoutError:
                if time.monotonic() > deadline:
                    sys.exit(f"{len(missing)} of {len(pieces)} datagrams did not return")


def main():
    protocol = sys.argv[2]
    if sys.argv[1] == "serve":
        serve(protocol, int(sys.argv[3]), sys.argv[4:])
        return
    address, port = sys.argv[3], int(sys.argv[4])
    size, connections = (int(word) for word in (sys.argv[5:] + ["100000", "4"][len(sys.argv) - 5:]))
    data = random.Random(size).randbytes(size)
    if protocol == "SCTP-MANY":
        many(address, port, data, connections)
    for _ in range(connections if protocol != "SCTP-MANY" else 0):
        datagrams(address, port, data) if protocol == "UDP" else stream(protocol, address, port, data)
    print(f"{protocol}: {connections} connections to {address} port {port}, {size} bytes each way, all unchanged")


main()
