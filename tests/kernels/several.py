# SPDX-License-Identifier: Apache-2.0
"""Client and server of an SCTP association with several addresses of the server.

usage: several.py serve PORT ADDRESS...: an echo server with one socket on all addresses; prints "ready" when it listens.
       several.py ask ADDRESS PORT STOP: sends a message five times a second until the file STOP exists, and prints a line for each answer;
       fails if an answer is missing or wrong."""

import pathlib
import socket
import struct
import sys
import time

SCTP_SOCKOPT_BINDX_ADD = 100
SCTP_RTOINFO, SCTP_PEER_ADDR_PARAMS = 0, 9
SPP_HB_ENABLE = 1
TIMEOUT = 30


def packed(address, port):
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(address))


def serve(port, addresses):
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    server.bind((addresses[0], port))
    server.setsockopt(socket.IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, b"".join(packed(address, port) for address in addresses[1:]))
    server.listen(8)
    print("ready", flush=True)
    while True:
        connection = server.accept()[0]
        with connection:
            while piece := connection.recv(1 << 16):
                connection.sendall(piece)


def ask(address, port, stop):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP) as connection:
        # Retransmit after a quarter of a second, consider a path lost after two retransmissions, and probe each path every
        # second.
        connection.setsockopt(socket.IPPROTO_SCTP, SCTP_RTOINFO, struct.pack("=iIII", 0, 250, 1000, 250))
        connection.setsockopt(socket.IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS,
                              struct.pack("=i128sIHIIIIBx", 0, bytes(128), 1000, 1, 0, 0, SPP_HB_ENABLE, 0, 0))
        connection.settimeout(TIMEOUT)
        connection.connect((address, port))
        number = 0
        while not stop.exists():
            number += 1
            message = f"message {number}".encode()
            connection.sendall(message)
            answer = connection.recv(1 << 16)
            if answer != message:
                sys.exit(f"{answer!r} instead of {message!r}")
            print(number, flush=True)
            time.sleep(0.2)


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]), sys.argv[3:])
else:
    ask(sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4]))
