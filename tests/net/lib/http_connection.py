# SPDX-License-Identifier: Apache-2.0
"""Sends ten requests a second on one HTTP connection, all of which the same backend must answer.
usage: http_connection.py ADDRESS PORT DIRECTORY. Makes DIRECTORY/connected-PID once it is connected. While DIRECTORY/pause exists, no request is sent; when DIRECTORY/stop appears, it prints
the number of responses. Another backend or a broken connection is an error."""

import http.client
import os
import pathlib
import sys
import time

address, port, directory = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
connection = http.client.HTTPConnection(address, port, timeout=5)
connection.connect()
connection.auto_open = False
(directory / f"connected-{os.getpid()}").touch()
first, count = None, 0
while not (directory / "stop").exists():
    time.sleep(0.1)
    if (directory / "pause").exists():
        continue
    connection.request("GET", "/")
    who = connection.getresponse().read()
    first = first or who
    if who != first:
        sys.exit(f"{who} answers instead of {first}")
    count += 1
print(count)
