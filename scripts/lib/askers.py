# SPDX-License-Identifier: Apache-2.0
"""Fails if a function asks for services' addresses and has no row in "What asks for claimed addresses" of docs/threats.md, or a row names none
that does. A row's tests name it: "row egress". usage: askers.py"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE, HEAD = "docs/threats.md", "### What asks for claimed addresses"
ASKS = re.compile(r"\b(lb_is_xfrm_peer|lb_frontend_load|lb_address_kind_of|lb_in_ranges|lb_node_port_load|service_at)\(|lookup_elem\(&lb_(frontends|addresses|ranges)\b")
OWN = ("bpf/select/service.h", "bpf/select/ranges.h")  # the look-ups themselves
SOURCES = ("bpf/**/*.h", "bpf/*.c", "agent/**/*.cpp")
DEFINITION = re.compile(r"^[A-Za-z][^;=#]*?\b(?:LB_PER_OBJECT\()?(\w+)\)?\(")


def askers(path):
    """The functions of a file that ask."""
    inside = None
    for line in path.read_text().splitlines():
        if found := DEFINITION.match(line):
            inside = found[1]
        elif line.startswith((" ", "\t")) and not line.lstrip().startswith(("*", "//")) and ASKS.search(line):
            yield inside


def all_askers():
    paths = [path for pattern in SOURCES for path in ROOT.glob(pattern)]
    return {(str(path.relative_to(ROOT)), name) for path in paths if str(path.relative_to(ROOT)) not in OWN for name in askers(path)}


def rows():
    """The table's rows: the name, and the places of the second column, `file: function`."""
    text = (ROOT / PAGE).read_text()
    part = text[text.index(HEAD):].split("\n## ")[0].split("\n### ")
    section = "\n".join(part[:2]) if not part[0].strip() else part[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) > 2 and "`" in cells[1]:
            yield cells[0], set(re.findall(r"`([\w./]+): (\w+)`", cells[1]))


def untested(names):
    text = "".join(path.read_text() for pattern in ("prog/**/*.py", "net/**/*.cpp", "net/**/*.sh") for path in (ROOT / "tests").glob(pattern))
    return [f"{PAGE}: no test names row {name}" for name in names if f"row {name}" not in text]


def main():
    listed = list(rows())
    places, found = set().union(*(places for _, places in listed)), all_askers()
    wrong = [f"{file}: {name} asks for services' addresses, and is in no row of {PAGE}" for file, name in sorted(found - places)]
    wrong += [f"{PAGE}: {file} has no {name} that asks" for file, name in sorted(places - found)]
    wrong += untested(name for name, _ in listed if name.isalpha())
    print("\n".join(wrong) if wrong else f"askers: {len(found)} functions in {len(listed)} rows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
