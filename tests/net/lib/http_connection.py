"""One HTTP connection that is asked ten times a second and answered by the same backend.
usage: http_connection.py ADDRESS PORT DIRECTORY. While DIRECTORY/pause exists nothing is asked; when DIRECTORY/stop appears it prints how
often it was answered. Any other backend or a broken connection is an error."""

import http.client
import pathlib
import sys
import time

address, port, directory = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
connection = http.client.HTTPConnection(address, port, timeout=5)
connection.connect()
connection.auto_open = False
first, count = None, 0
while not (directory / "stop").exists():
    time.sleep(0.1)
    if (directory / "pause").exists():
        continue
    connection.request("GET", "/")
    who = connection.getresponse().read()
    first = first or who
    if who != first:
        sys.exit(f"{who} answers in the place of {first}")
    count += 1
print(count)
