"""Uses one connected UDP socket: prints "answered" after the first answer, and "error: REASON" when the socket fails."""

import os
import socket
import sys
import time

where = (sys.argv[1], int(sys.argv[2]))
family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as connected:
    connected.settimeout(1)
    connected.connect(where)
    connected.send(b"who?")
    connected.recv(100)
    print("answered", flush=True)
    for _ in range(100):
        time.sleep(0.05)
        try:
            connected.send(b"who?")
            connected.recv(100)
        except OSError as error:
            print("error:", os.strerror(error.errno) if error.errno else error, flush=True)
            break
