# SPDX-License-Identifier: Apache-2.0
"""Holds as many connections as it can to all given ports, and opens new ones all the time, as a hostile client does: without a
request, or with a part of one. usage: crowd.py SECONDS EACH PORT,... ADDRESS...: EACH connections to each port of each address.
Prints "full" when all were opened once."""

import resource
import socket
import sys
import time


def connect(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.settimeout(0.5)
    try:
        made.connect((address, port))
        made.send(b"GET /")
    except OSError:
        pass
    return made


def main(seconds, each, ports, *addresses):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    places = [(address, int(port)) for address in addresses for port in ports.split(",")]
    held, until, said = {}, time.monotonic() + float(seconds), False
    while time.monotonic() < until:
        for number in range(int(each)):
            for place in places:
                if time.monotonic() > until:
                    return
                held[place, number] = connect(*place)
        if not said:
            print("full", flush=True)
            said = True


main(*sys.argv[1:])
