"""Prints the address that getaddrinfo sorts first, for a name that has several. usage: getaddrinfo_order.py PORT ADDRESS...
Binds a hosts file of its own over the system's, so it wants a mount namespace of its own, too."""

import socket
import subprocess
import sys
import tempfile

port, addresses = int(sys.argv[1]), sys.argv[2:]
with tempfile.NamedTemporaryFile("w", encoding="ascii") as hosts:
    hosts.writelines(f"{address} several.test\n" for address in addresses)
    hosts.flush()
    subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
    print(socket.getaddrinfo("several.test", port, type=socket.SOCK_STREAM)[0][4][0], end="")
