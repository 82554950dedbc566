#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sends datagrams as fragments made by scapy, in orders in which no kernel sends them.

usage: fragments.py SOURCE PORT DESTINATION PORT SIZE NUMBER ORDER: one datagram of SIZE bytes, whose identification is NUMBER;
the byte at N is (N * 7 + N // 256) % 256. Orders: in-order, rest-reversed (the first comes first), rotated (the first comes
last), reversed.
"""
import logging
import socket
import sys

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from scapy.compat import raw
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
from scapy.packet import Raw

ORDERS = {"in-order": lambda parts: parts, "rest-reversed": lambda parts: parts[:1] + parts[:0:-1],
          "rotated": lambda parts: parts[1:] + parts[:1], "reversed": lambda parts: parts[::-1]}
PIECE = 1400


def datagram(source, destination, size, number):
    (host, port), (to, to_port) = source, destination
    payload = Raw(bytes((at * 7 + at // 256) % 256 for at in range(size)))
    udp = UDP(sport=port, dport=to_port) / payload
    if ":" in to:
        whole = IPv6(raw(IPv6(src=host, dst=to) / udp))
        split = IPv6(src=host, dst=to) / IPv6ExtHdrFragment(id=number, nh=17) / Raw(raw(whole[UDP]))
        return fragment6(split, PIECE)
    return fragment(IP(raw(IP(src=host, dst=to, id=number) / udp)), PIECE)


def main():
    source, destination = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[4]))
    family = socket.AF_INET6 if ":" in destination[0] else socket.AF_INET
    sender = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for part in ORDERS[sys.argv[7]](datagram(source, destination, int(sys.argv[5]), int(sys.argv[6]))):
        sender.sendto(raw(part), (destination[0], 0))


if __name__ == "__main__":
    main()
