# SPDX-License-Identifier: Apache-2.0
"""Connections from given source ports to a backend whose HTTP responses begin with its name (scripts/lib/backend.py).

usage: by_port.py once ADDRESS PORT FIRST COUNT         PORT NAME for each of the client's ports FIRST, FIRST + 1, ...
       by_port.py keep ADDRESS PORT FIRST COUNT FILE    they stay open and ask ten times a second until FILE exists; "open" when all have had an
                                                        answer, then for each "good PORT", "reset PORT" or "moved PORT NAME NAME" or "hung PORT\""""

import os
import socket
import sys
import threading
import time


def open_from(address, port, own):
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Close by a reset, so that the next connection can use the port at once.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.settimeout(5)
    connection.bind(("", own))
    connection.connect((address, port))
    return connection


def ask(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    text = b""
    while b"\r\n\r\n" not in text or len(text.split(b"\r\n\r\n", 1)[1]) < length_of(text):
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionResetError
        text += piece
    return text.split(b"\r\n\r\n", 1)[1].decode().split()[0]


def length_of(text):
    head = text.split(b"\r\n\r\n", 1)[0].lower()
    return int(head.split(b"content-length:", 1)[1].split()[0])


def once(address, port, first, count):
    for own in range(first, first + count):
        with open_from(address, port, own) as connection:
            print(own, ask(connection))


def say(text):
    """Prints a line by one write, so that threads do not interleave."""
    os.write(1, (text + "\n").encode())


def keep_one(connection, own, name, stop):
    try:
        while not os.path.exists(stop):
            now = ask(connection)
            if now != name:
                return say(f"moved {own} {name} {now}")
            time.sleep(0.1)
    except TimeoutError:
        return say(f"hung {own}")
    except OSError:
        return say(f"reset {own}")
    return say(f"good {own}")


def keep(address, port, first, count, stop):
    found = [(open_from(address, port, own), own) for own in range(first, first + count)]
    names = [ask(connection) for connection, _ in found]
    say("open")
    threads = [threading.Thread(target=keep_one, args=(connection, own, name, stop)) for (connection, own), name in zip(found, names)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


how, address, port, first, count, *rest = sys.argv[1:]
{"once": once, "keep": keep}[how](address, int(port), int(first), int(count), *rest)
