# SPDX-License-Identifier: Apache-2.0
"""Prints the address that getaddrinfo returns first for a name with several addresses. usage: getaddrinfo_order.py PORT ADDRESS...
Mounts a hosts file over the system's, so it needs its own mount namespace."""

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
