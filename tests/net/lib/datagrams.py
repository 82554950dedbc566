# SPDX-License-Identifier: Apache-2.0
"""Sends, hears and answers single datagrams of one word.

usage: datagrams.py hear ADDRESS PORT               prints each word with its sender: WORD ADDRESS PORT
       datagrams.py answer ADDRESS PORT             the same, and answers with the word, by sendto
       datagrams.py watch DEVICE ADDRESS            prints each word for the address (IPv4) that arrives by the device
       datagrams.py say WORD ADDRESS PORT [--from PORT] [--connect] [--answered]
                                                    may send to broadcast addresses; --answered: waits for the same word from there,
                                                    and fails with "nothing" or what else came"""

import argparse
import socket
import sys


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    ways = parser.add_subparsers(dest="way", required=True)
    for way in ("hear", "answer"):
        listens = ways.add_parser(way)
        listens.add_argument("address")
        listens.add_argument("port", type=int)
    watches = ways.add_parser("watch")
    watches.add_argument("device")
    watches.add_argument("address")
    says = ways.add_parser("say")
    says.add_argument("word")
    says.add_argument("address")
    says.add_argument("port", type=int)
    says.add_argument("--from", dest="own", type=int, default=0)
    says.add_argument("--connect", action="store_true")
    says.add_argument("--answered", action="store_true")
    return parser.parse_args()


def udp(address):
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def hear(options):
    sock = udp(options.address)
    sock.bind((options.address, options.port))
    while True:
        word, peer = sock.recvfrom(65535)
        print(word.decode(), *peer[:2], flush=True)
        if options.way == "answer":
            sock.sendto(word, peer)


def watch(options):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    sock.bind((options.device, 0x0800))
    print("watching", flush=True)
    while True:
        packet = sock.recv(65535)
        if packet[9] == socket.IPPROTO_UDP and packet[16:20] == socket.inet_aton(options.address):
            head = (packet[0] & 15) * 4
            print(packet[head + 8:].decode(errors="replace"), options.address, flush=True)


def say(options):
    sock = udp(options.address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sock.settimeout(2)
    if options.own:
        sock.bind(("", options.own))
    where = (options.address, options.port)
    try:
        if options.connect:
            sock.connect(where)
            sock.send(options.word.encode())
        else:
            sock.sendto(options.word.encode(), where)
        if options.answered:
            word, peer = sock.recvfrom(65535)
            if (word.decode(), *peer[:2]) != (options.word, *where):
                sys.exit(f"{word.decode()} from {peer[0]} port {peer[1]}")
    except socket.timeout:
        sys.exit("nothing")


def main():
    options = arguments()
    {"hear": hear, "answer": hear, "watch": watch, "say": say}[options.way](options)


main()
