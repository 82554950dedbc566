#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sends forged ICMP errors of an attacker that knows or guesses tuples of flows, but no sequence numbers.

usage: hostile_icmp.py FLOWS    the output of `sluice flows -o json`: errors about both directions of each flow, and about unknown tuples"""
import json
import logging
import random
import socket
import sys

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6DestUnreach, ICMPv6PacketTooBig, ICMPv6ParamProblem, ICMPv6TimeExceeded, IPv6)
from scapy.packet import Raw

ERRORS4 = ([ICMP(type=3, code=code) for code in range(16)] + [ICMP(type=3, code=4, nexthopmtu=mtu) for mtu in (0, 1, 68, 552, 1499, 65535)] +
           [ICMP(type=11, code=code) for code in (0, 1)] + [ICMP(type=12), ICMP(type=4), ICMP(type=5, code=1, gw="10.0.0.22")])
ERRORS6 = ([ICMPv6DestUnreach(code=code) for code in range(8)] + [ICMPv6PacketTooBig(mtu=mtu) for mtu in (0, 68, 1279, 1280, 0xffffffff)] +
           [ICMPv6TimeExceeded(code=code) for code in (0, 1)] + [ICMPv6ParamProblem(code=code) for code in range(3)])


def end(text):
    address, port = text.rsplit(":", 1)
    return address.strip("[]"), int(port)


def quoted(protocol, source, target):
    """A packet from `source` to `target`, with invented sequence numbers."""
    layer = IPv6 if ":" in source[0] else IP
    inner = (TCP(sport=source[1], dport=target[1], seq=random.getrandbits(32), ack=random.getrandbits(32), flags="A")
             if protocol == "TCP" else UDP(sport=source[1], dport=target[1]))
    return layer(src=source[0], dst=target[0]) / inner / Raw(b"x" * 8)


def errors_about(packet):
    """Errors to the packet's sender: every type, with the whole packet, with it truncated at many lengths, and with an error that quotes it."""
    layer, errors = (IPv6, ERRORS6) if packet.version == 6 else (IP, ERRORS4)
    for error in errors:
        yield layer(dst=packet.src) / error.copy() / packet
    whole = bytes(packet)
    for size in (0, 1, 8, 19, 20, 24, 27, 28, 39, 40, 44, 48):
        yield layer(dst=packet.src) / errors[3].copy() / Raw(whole[:size])
    nested = layer(src=packet.src, dst=packet.dst) / errors[3].copy() / packet
    yield layer(dst=packet.src) / errors[3].copy() / nested


class Sender:
    """Sends by raw sockets, so that the kernel chooses the route."""

    def __init__(self):
        self.raw = {IP: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
                    IPv6: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)}

    def send(self, packet):
        kind = type(packet)
        whole = kind(bytes(packet))  # with its checksums
        try:
            self.raw[kind].sendto(bytes(whole.payload), (packet.dst, 0))
        except OSError:
            return 0  # no route from here
        return 1


def main():
    random.seed(1)
    sender = Sender()
    count = 0
    for flow in json.load(open(sys.argv[1], encoding="utf-8")):
        client, frontend, backend, source = (end(flow[key]) for key in ("client", "frontend", "backend", "source"))
        strangers = (frontend[0], random.randrange(1024, 65536)), (client[0], random.randrange(1024, 65536))
        for one, other in ((frontend, client), (source, backend), (backend, source), strangers):
            for error in errors_about(quoted(flow["protocol"], one, other)):
                count += sender.send(error)
    print(count)


main()
