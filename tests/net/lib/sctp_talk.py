#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SCTP's handshake over raw sockets, for kernels without SCTP; packets and checksums are scapy's.

usage: sctp_talk.py serve ADDRESS PORT: answers until it is killed.
       sctp_talk.py ask ADDRESS PORT ADDRESS PORT: from the first to the second; fails if no answer comes from there.
"""
import logging
import socket
import sys
import time

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from scapy.compat import raw
from scapy.layers.inet import IP
from scapy.layers.sctp import (SCTP, SCTPChunkCookieAck, SCTPChunkCookieEcho, SCTPChunkInit, SCTPChunkInitAck)

TAG = 0x1111  # of both sides
SIZES = {"init_tag": TAG, "a_rwnd": 65536, "n_out_streams": 10, "n_in_streams": 10}
TIMEOUT = 10


def opened(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_SCTP)
    made.bind((address, 0))
    made.settimeout(0.2)
    return made


def heard(made, port):
    """The next packet to the port with a correct checksum, and its sender; None after a timeout."""
    try:
        words, sender = made.recvfrom(65536)
    except TimeoutError:
        return None
    packet = IP(words)[SCTP] if made.family == socket.AF_INET else SCTP(words)
    again = packet.copy()
    del again.chksum
    if packet.dport != port or raw(again) != raw(packet):
        return None
    return packet, sender[0]


def serve(address, port):
    made = opened(address)
    while True:
        got = heard(made, port)
        if got is None:
            continue
        packet, sender = got
        chunk = SCTPChunkInitAck(**SIZES) if packet.haslayer(SCTPChunkInit) else SCTPChunkCookieAck()
        made.sendto(raw(SCTP(sport=port, dport=packet.sport, tag=TAG) / chunk), (sender, 0))


def ask(address, port, to, to_port):
    made = opened(address)
    deadline = time.monotonic() + TIMEOUT
    for chunk, answer in ((SCTPChunkInit(**SIZES), SCTPChunkInitAck),
                          (SCTPChunkCookieEcho(cookie=b"biscuit!"), SCTPChunkCookieAck)):
        got = None
        while got is None or got[1] != to or got[0].sport != to_port or not got[0].haslayer(answer):
            if time.monotonic() > deadline:
                sys.exit(f"no answer to {chunk.name}")
            made.sendto(raw(SCTP(sport=port, dport=to_port, tag=TAG) / chunk), (to, 0))
            got = heard(made, port)


def main():
    ends = [(sys.argv[at], int(sys.argv[at + 1])) for at in range(2, len(sys.argv), 2)]
    {"serve": serve, "ask": ask}[sys.argv[1]](*[word for end in ends for word in end])


if __name__ == "__main__":
    main()
