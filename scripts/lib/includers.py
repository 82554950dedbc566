# SPDX-License-Identifier: Apache-2.0
"""Fails when a header that costs compile time, or that hides a library, reaches more than one object of the agent and
its libraries, or none (it has another path now), directly or not. Beast and OpenSSL: also the file that compiles them
once; Beast: one of a server and one of a client; CLI11: the agent's options and the commands.
usage: includers.py BUILD_DIR"""

import re
import sys

from deps import headers_by_object

HEAVY = {
    "simdjson": r"/simdjson\.h$",
    "the skeleton": r"/lb\.skel\.h$",
    "OpenSSL": r"/openssl/ssl\.h$|/boost/asio/ssl\.hpp$",
    "yaml-cpp": r"/yaml-cpp/",
    "CLI11": r"/CLI/",
    "Beast": r"/boost/beast/",
    "protozero": r"/protozero/",
    "zlib": r"/zlib\.h$",
}
ALLOWED = {"Beast": 3, "CLI11": 2, "OpenSSL": 2, "protozero": 3}


def main():
    objects = {name: headers for name, headers in headers_by_object(sys.argv[1]).items()
               if re.match(r"CMakeFiles/(lb_\w+|sluice)\.dir/", name)}
    wrong = not objects
    for name, pattern in HEAVY.items():
        users = sorted(user for user, headers in objects.items()
                       if any(re.search(pattern, str(header)) for header in headers))
        print(f"{name}: {' '.join(users) or 'no file'}")
        wrong |= not 0 < len(users) <= ALLOWED.get(name, 1)
    return 1 if wrong else 0


sys.exit(main())
