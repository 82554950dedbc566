# SPDX-License-Identifier: Apache-2.0
"""A service mesh's sidecar proxy: accepts connections that REDIRECT sends to its port, and connects to their original destinations.
usage: sidecar.py PORT MARK. Prints the destination of each connection, with "refused" if it cannot be reached; its own
connections have the mark, which exempts them from the rule."""

import socket
import struct
import sys
import threading

SO_ORIGINAL_DST = 80
FAMILIES = {socket.AF_INET: (socket.IPPROTO_IP, "0.0.0.0"), socket.AF_INET6: (socket.IPPROTO_IPV6, "::")}


def original(connection):
    """The client's original destination."""
    raw = connection.getsockopt(FAMILIES[connection.family][0], SO_ORIGINAL_DST, 28)
    port = struct.unpack_from("!H", raw, 2)[0]
    address = raw[4:8] if connection.family == socket.AF_INET else raw[8:24]
    return socket.inet_ntop(connection.family, address), port


def say(where, what=""):
    """Prints a line by one write, so that threads do not interleave."""
    sys.stdout.write(f"{where[0]} {where[1]}{what}\n")
    sys.stdout.flush()


def relay(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        sink.close()


def serve(connection, mark):
    where = original(connection)
    if where == connection.getsockname()[:2]:  # nobody redirected it
        connection.close()
        return
    onward = socket.socket(connection.family, socket.SOCK_STREAM)
    onward.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
    try:
        onward.connect(where)
    except OSError as error:
        say(where, " refused" if isinstance(error, ConnectionRefusedError) else f" {error}")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a reset
        connection.close()
        return
    say(where)
    back = threading.Thread(target=relay, args=(onward, connection))
    back.start()
    relay(connection, onward)
    back.join()
    onward.close()
    connection.close()


def listen(family, port, mark):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((FAMILIES[family][1], port))
    server.listen(1024)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection, mark), daemon=True).start()


for each in FAMILIES:
    threading.Thread(target=listen, args=(each, int(sys.argv[1]), int(sys.argv[2]))).start()
