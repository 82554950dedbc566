# SPDX-License-Identifier: Apache-2.0
"""Sends a SYN by a raw socket, which no socket hook sees, and prints the flags of the first answer from there: "SA" or "R".

usage: raw_syn.py SOURCE ADDRESS PORT    exit code 1 with "nothing" if nothing comes back in two seconds"""

import random
import socket
import struct
import sys
import time

source, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
own = random.randrange(20000, 30000)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def segment():
    number = random.getrandbits(32)
    layout = "!HHIIBBHHH"
    fields = [own, port, number, 0, 5 << 4, 2, 1024, 0, 0]
    pseudo = socket.inet_pton(family, source) + socket.inet_pton(family, address)
    # In either family's pseudo-header; a sum has no order.
    pseudo += struct.pack("!HH", socket.IPPROTO_TCP, struct.calcsize(layout))
    fields[7] = checksum(pseudo + struct.pack(layout, *fields))
    return struct.pack(layout, *fields)


def flags_of(packet):
    """The flags of a segment to our port; None of another one. An IPv4 raw socket also gets the IP header."""
    if family == socket.AF_INET:
        packet = packet[(packet[0] & 15) * 4:]
    from_port, to_port = struct.unpack("!HH", packet[:4])
    return packet[13] if (from_port, to_port) == (port, own) else None


def main():
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        raw.bind((source, 0))
        raw.settimeout(0.2)
        raw.sendto(segment(), (address, 0))
        until = time.monotonic() + 2
        while time.monotonic() < until:
            try:
                packet, peer = raw.recvfrom(2000)
            except socket.timeout:
                continue
            flags = flags_of(packet) if peer[0] == address else None
            if flags is not None:
                print("R" if flags & 4 else "SA" if flags & 18 == 18 else hex(flags))
                return
    sys.exit("nothing")


main()
