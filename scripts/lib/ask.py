# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a service, each over a new connection or socket, and counts which backend answers.

usage: ask.py tcp|udp ADDRESS PORT [--count N | --seconds S] [--timeout S] [--pause S] [--json] [--post BYTES]
              [--keep-socket] [--until-failure]
       ask.py hold ADDRESS PORT --backend NAME --seconds S

Prints one line an answer: its count, the backend, the client's address as the backend saw it. Failures are counted under
"failed: REASON". --json: {"answers": {backend: n}, "peers": {backend: [client's address, ...]},
"failed": {reason: n}, "slowest": seconds}.
Exit code 1 when any request failed. SIGTERM ends it as the count or the time would. --keep-socket: datagrams from one
unconnected socket. --until-failure: ends with the first request that fails. hold: connects until NAME answers, says "held", and asks on that one connection every 50 ms; the
count of answers comes as above."""

import argparse
import collections
import errno
import http.client
import json
import signal
import socket
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("protocol", choices=["tcp", "udp", "hold"])
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--timeout", type=float, default=3)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--post", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep-socket", action="store_true")
    parser.add_argument("--until-failure", action="store_true")
    parser.add_argument("--backend")
    return parser.parse_args()


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def ask_tcp(options):
    """Makes one request on a new connection; returns the text of the whole response."""
    connection = http.client.HTTPConnection(options.address, options.port, timeout=options.timeout)
    try:
        connection.request("POST" if options.post else "GET", "/", bytes(options.post) or None)
        return connection.getresponse().read().decode()
    except http.client.HTTPException as error:
        raise OSError(errno.EPROTO, f"answer cut short: {error}") from error
    finally:
        connection.close()


class AskUdp:
    """Requests by UDP. The response must come from the address that was asked."""

    def __init__(self):
        self.kept = None

    def __call__(self, options):
        sock = self.kept or socket.socket(family_of(options.address), socket.SOCK_DGRAM)
        sock.settimeout(options.timeout)
        if options.keep_socket:
            self.kept = sock
        sock.sendto(b"who?\n", (options.address, options.port))
        answer, peer = sock.recvfrom(65535)
        if not options.keep_socket:
            sock.close()
        if peer[:2] != (options.address, options.port):
            raise OSError(errno.EPROTO, f"answer from {peer[0]}:{peer[1]}")
        return answer.decode()


class Hold:
    """Makes requests to one backend on one connection."""

    def __init__(self, options):
        for _ in range(1000):
            self.connection = http.client.HTTPConnection(options.address, options.port, timeout=options.timeout)
            if self().split()[0] == options.backend:
                print("held", flush=True)
                return
            self.connection.close()
        sys.exit(f"{options.backend} never answered")

    def __call__(self, _=None):
        time.sleep(0.05)
        try:
            self.connection.request("GET", "/")
            self.connection.auto_open = 0  # a second connection would hide that the first has ended
            return self.connection.getresponse().read().decode()
        except http.client.HTTPException as error:
            raise OSError(errno.EPROTO, f"connection ended: {error}") from error


def main():
    options = arguments()
    if options.protocol == "hold":
        ask = Hold(options)
    else:
        ask = ask_tcp if options.protocol == "tcp" else AskUdp()
    run(options, ask)


def run(options, ask):
    """Makes requests until the count or the time is reached, prints the result, and exits."""
    answers, failed, lines = collections.Counter(), collections.Counter(), collections.Counter()
    peers = collections.defaultdict(set)
    start, slowest, asked, ended = time.monotonic(), 0.0, 0, []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    while not ended and (time.monotonic() - start < options.seconds if options.seconds else asked < options.count):
        asked += 1
        time.sleep(options.pause)
        began = time.monotonic()
        try:
            text = ask(options)
            words = text.split()
            answers[words[0]] += 1
            peers[words[0]].add(words[1])
            lines[text.strip()] += 1
        except OSError as error:
            failed[error.strerror or str(error)] += 1
            if options.until_failure:
                ended.append(True)
        slowest = max(slowest, time.monotonic() - began)
    if options.json:
        print(json.dumps({"answers": answers, "peers": {name: sorted(seen) for name, seen in peers.items()},
                          "failed": failed, "slowest": round(slowest, 3)}))
    else:
        for line, count in sorted(lines.items()):
            print(f"{count} {line}")
        for reason, count in sorted(failed.items()):
            print(f"{count} failed: {reason}")
    sys.exit(1 if failed or not answers else 0)


main()
