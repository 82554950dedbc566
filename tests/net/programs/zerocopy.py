# SPDX-License-Identifier: Apache-2.0
"""Echoes a file by zero-copy sends (MSG_ZEROCOPY), and by sendfile.

usage: zerocopy.py serve PORT | zerocopy.py stream ADDRESS PORT FILE | zerocopy.py sendfile ADDRESS PORT FILE

A client sends the file, and compares the echo. The sender of zero-copy data waits until the socket's error queue has reported for each
send that the kernel no longer uses the memory."""

import select
import socket
import struct
import sys

SO_ZEROCOPY, MSG_ZEROCOPY, MSG_ERRQUEUE = 60, 0x4000000, 0x2000
SO_EE_ORIGIN_ZEROCOPY = 5
CHUNK = 1 << 16


def reported(connection):
    """The number of sends that the error queue's next notification covers."""
    _, ancillary, _, _ = connection.recvmsg(0, 512, MSG_ERRQUEUE)
    (_, _, data), = ancillary
    _, origin, _, _, _, first, last = struct.unpack_from("IBBBBII", data)
    assert origin == SO_EE_ORIGIN_ZEROCOPY, f"an error of origin {origin}"
    return last - first + 1


def send_all(connection, content):
    """Sends all bytes without copies."""
    connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    view, pending = memoryview(content), 0
    while view or pending:
        watch = select.poll()
        watch.register(connection, select.POLLOUT if view else 0)
        (_, events), = watch.poll(60_000) or sys.exit("cannot send for a minute")
        if events & select.POLLERR:
            pending -= reported(connection)
        elif view:
            view = view[connection.send(view[:CHUNK], MSG_ZEROCOPY | socket.MSG_DONTWAIT):]
            pending += 1


def receive_all(connection):
    return b"".join(iter(lambda: connection.recv(CHUNK), b""))


def serve(port):
    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(60)
                send_all(connection, receive_all(connection))


def ask(how, address, port, path):
    with socket.create_connection((address, port), 60) as connection, open(path, "rb") as file:
        content = file.read()
        if how == "sendfile":
            file.seek(0)
            connection.sendfile(file)
        else:
            send_all(connection, content)
        connection.shutdown(socket.SHUT_WR)
        sys.exit(None if receive_all(connection) == content else "the echo is another")


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    ask(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
