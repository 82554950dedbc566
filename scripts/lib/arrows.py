# SPDX-License-Identifier: Apache-2.0
"""Fails if an include or a link points up: from a folder or library to one above it. Each list below names the folders of a part, or the
libraries, lowest first: each may use those before it. usage: arrows.py"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = [
    ["maps/abi", "maps"],
    ["bpf/packet", "bpf/select", "bpf/flow", "bpf/rewrite", "bpf/path", "bpf/sock", "bpf"],
    ["k8s/objects", "k8s/encoding", "k8s/client", "k8s/watch", "k8s/manifests"],
    ["agent/options", "agent/base", "agent/plan", "agent/netlink", "agent/kube_proxy", "agent/programs", "agent/attach", "agent/tables",
     "agent/observe", "agent/datapath", "agent/run", "agent/commands", "agent"],
]
# Allowed dependencies between the parts: which parts each may include.
ABOVE = {"maps": set(), "bpf": {"maps"}, "k8s": set(), "agent": {"maps", "k8s", "bpf"}}
# The plan is a pure function of objects: it includes neither maps nor the kernel's headers, and waits for nothing.
PURE = {"agent/plan": re.compile(r"<bpf/|<boost/asio|\"maps/(?!abi/|text\.hpp)|<sys/|<linux/")}
# Libraries of CMakeLists.txt. The pure ones link only the libraries listed here.
LIBRARIES = ["lb_flags", "lb_map_text", "lb_maps", "lb_objects", "lb_k8s", "lb_rules", "lb_plan", "lb_core", "sluice"]
PURE_LIBRARIES = {"lb_map_text", "lb_objects", "lb_rules", "lb_plan"}
PURE_LINKS = {"fmt::fmt", "Boost::headers", "lb_flags"} | PURE_LIBRARIES


def link_complaints(text):
    links = {name: set() for name in re.findall(r"add_(?:library|executable)\((\w+)", text)}
    for name, rest in re.findall(r"target_link_libraries\((\w+)\s+([^)]*)\)", text):
        links[name] |= set(rest.split()) - {"PUBLIC", "PRIVATE", "INTERFACE"}
    for name, used in links.items():
        if name not in LIBRARIES:
            yield f"CMakeLists.txt: {name} is a library that scripts/lib/arrows.py does not know"
            continue
        for other in sorted(used & set(links)):
            if other in LIBRARIES and LIBRARIES.index(other) >= LIBRARIES.index(name):
                yield f"CMakeLists.txt: {name} links {other}, which is built upon it"
        if name in PURE_LIBRARIES:
            yield from (f"CMakeLists.txt: {name} is pure and links {other}" for other in sorted(used - PURE_LINKS))


def folder(name):
    return str(Path(name).parent)


def complaints(path):
    name = str(path.relative_to(ROOT))
    here = folder(name)
    order = next((part for part in PARTS if here in part), None)
    if order is None:
        yield f"{name}: stands in a folder that scripts/lib/arrows.py does not know"
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        pure = PURE.get(here)
        if pure and line.startswith("#include") and pure.search(line):
            yield f"{name}:{number}: {here} is pure: {line}"
        found = re.match(r'#include "((maps|bpf|k8s|agent)/[^"]+)"', line)
        if not found or found.group(1).endswith(".skel.h"):
            continue
        there = folder(found.group(1))
        part, other = here.split("/")[0], there.split("/")[0]
        if part != other and other not in ABOVE[part]:
            yield f"{name}:{number}: {part}/ includes {other}/"
        elif part == other and (there not in order or order.index(there) > order.index(here)):
            yield f"{name}:{number}: {here} includes {there}, which is built upon it"


def main():
    sources = [path for part in ABOVE for path in sorted((ROOT / part).rglob("*"))
               if path.suffix in (".c", ".h", ".cpp", ".hpp")]
    wrong = [text for path in sources for text in complaints(path)]
    wrong += link_complaints((ROOT / "CMakeLists.txt").read_text())
    for text in wrong:
        print(text)
    print(f"{len(sources)} files, {len(wrong)} includes and links that point up")
    return 1 if wrong or not sources else 0


sys.exit(main())
