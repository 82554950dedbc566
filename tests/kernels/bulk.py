"""Random bytes there and back: whether a stream arrives whole, over TCP, SCTP or MPTCP.

usage: bulk.py serve PROTOCOL PORT: sends back what it is sent, in both families; says "ready".
       bulk.py ask PROTOCOL ADDRESS PORT [BYTES [CONNECTIONS]]: each on a connection of its own; fails at the first wrong byte.

Protocols: TCP, MPTCP, SCTP (one-to-one sockets), SCTP-MANY (one-to-many: one socket for all associations)."""

import random
import socket
import sys
import threading

SOCKETS = {
    "TCP": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "MPTCP": (socket.SOCK_STREAM, 262),
    "SCTP": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
    "SCTP-MANY": (socket.SOCK_SEQPACKET, socket.IPPROTO_SCTP),
}
PIECE = 1000  # a message of SCTP's, in one packet
PATIENCE = 60  # seconds for one piece


def made(protocol, family):
    return socket.socket(family, *SOCKETS[protocol])


def echo(connection):
    with connection:
        while piece := connection.recv(1 << 16):
            connection.sendall(piece)


def echo_many(server):
    while True:
        piece, peer = server.recvfrom(1 << 16)
        if piece:
            server.sendto(piece, peer)


def serve_family(protocol, family, port, ready):
    server = made(protocol, family)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind(("" if family == socket.AF_INET else "::", port))
    server.listen(64)
    ready.release()
    if protocol == "SCTP-MANY":
        echo_many(server)
    while True:
        threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()


def serve(protocol, port):
    ready = threading.Semaphore(0)
    threads = [threading.Thread(target=serve_family, args=(protocol, family, port, ready))
               for family in (socket.AF_INET, socket.AF_INET6)]
    for thread in threads:
        thread.start()
    for _ in threads:
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
    """All that is sent has to come back, from the address that was asked."""
    with made(protocol, socket.AF_INET6 if ":" in address else socket.AF_INET) as connection:
        connection.settimeout(PATIENCE)
        connection.connect((address, port))
        if connection.getpeername()[:2] != (address, port):
            sys.exit(f"the peer is {connection.getpeername()[:2]}")
        for at in range(0, len(data), 64 * PIECE):
            window = data[at:at + 64 * PIECE]
            for begin in range(0, len(window), PIECE):
                connection.sendall(window[begin:begin + PIECE])
            if received(connection, len(window)) != window:
                sys.exit(f"a wrong byte among those behind {at}")


def many(address, port, data, associations):
    """One-to-many: each association is begun by its first message."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets = [made("SCTP-MANY", family) for _ in range(associations)]
    for at in range(0, len(data), PIECE):
        for each in sockets:
            each.settimeout(PATIENCE)
            each.sendto(data[at:at + PIECE], (address, port))
            piece, peer = each.recvfrom(1 << 16)
            if piece != data[at:at + PIECE] or peer[:2] != (address, port):
                sys.exit(f"{len(piece)} bytes from {peer[:2]} in the place of {len(data[at:at + PIECE])}")


def main():
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
        return
    protocol, address, port = sys.argv[2], sys.argv[3], int(sys.argv[4])
    size, connections = (int(word) for word in (sys.argv[5:] + ["100000", "4"][len(sys.argv) - 5:]))
    data = random.Random(size).randbytes(size)
    if protocol == "SCTP-MANY":
        many(address, port, data, connections)
    else:
        for _ in range(connections):
            stream(protocol, address, port, data)
    print(f"{protocol}: {connections} connections to {address} port {port}, {size} bytes each way, all as they were sent")


main()
