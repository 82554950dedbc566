# SPDX-License-Identifier: Apache-2.0
"""Fails if a file of bpf/ uses a name of a header that it does not include itself, or includes a header of ours without using any of its
names. --write corrects both. usage: bpf_includes.py [--write]"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Headers that a header re-exports: a file that includes it need not include these.
PASSED_ON = {
    "maps/abi/maps.bpf.h": ["maps/abi/abi.h", "maps/abi/outcomes.h"],
    "maps/abi/abi.h": ["maps/abi/outcomes.h"],
    "bpf/packet/stats.h": ["maps/abi/outcomes.h"],
}
DEFINITIONS = [
    re.compile(r"^#define (\w+)", re.M),
    re.compile(r"^(?:static (?:__always_)?inline|LB_FUNCTION)\s[^;{}(]*?\b(\w+)\((?!\w+\)\()", re.M),
    re.compile(r"^LB_FUNCTION\s[^;{}(]*?\bLB_PER_OBJECT\((\w+)\)\(", re.M),
    re.compile(r"^(?:struct|enum|union) (\w+) \{", re.M),
    re.compile(r"^(?:extern |const |volatile )*(?:struct \w+|enum \w+|__u\d+|int|long) \**(lb_\w+|bpf_\w+)(?:\[[^]]*\])?[ ;(]", re.M),
    re.compile(r"^\} (\w+) SEC\(\"\.maps\"\)", re.M),
]
NOT_NAMES = {"LB_PER_OBJECT", "SEC"}
# The kernel's and libbpf's headers, and the names that need each of them.
SYSTEM = {
    "asm/errno.h": r"\bE[A-Z]{3,}\b",
    "bpf/bpf_core_read.h": r"\bBPF_CORE_\w+|\bbpf_core_\w+",
    "bpf/bpf_endian.h": r"\bbpf_(?:hton|ntoh|cpu_to_be|be)\w+\(",
    "linux/bpf.h": r"\bBPF_CORE_\w+|\bbpf_core_\w+|\bstruct (?:__sk_buff|xdp_md|bpf_sock_addr|bpf_fib_lookup)\b|\bBPF_TCP_\w+",
    "linux/icmpv6.h": r"\bstruct icmp6hdr\b|\bICMPV6_\w+",
    "linux/if_ether.h": r"\bstruct ethhdr\b|\bETH_[A-Z]\w+",
    "linux/in.h": r"\bIPPROTO_(?:TCP|UDP|ICMP|ESP|AH)\b",
    "linux/ip.h": r"\bstruct iphdr\b",
    "linux/ipv6.h": r"\bstruct ipv6hdr\b",
    "linux/pkt_cls.h": r"\bTC_ACT_\w+",
    "linux/tcp.h": r"\bstruct tcphdr\b",
    "linux/udp.h": r"\bstruct udphdr\b",
}


def code_of(text):
    """The text without comments and strings."""
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", " ", text, flags=re.S)


def defined(name, text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    names = {found for pattern in DEFINITIONS for found in pattern.findall(text)}
    for body in re.findall(r"^enum(?: \w+)? \{(.*?)\}", text, re.M | re.S):
        names |= set(re.findall(r"\b([A-Za-z_]\w*)\b(?=\s*(?:=[^,]*)?(?:,|$))", body.strip()))
    if name.endswith("outcomes.h"):
        names |= {f"LB_OUTCOME_{each}" for each in re.findall(r"^\s+X\((\w+),", text, re.M)}
    return {each for each in names if not each.startswith("SLUICE_")} - NOT_NAMES


def includes_of(text):
    return re.findall(r'^#include "((?:bpf|maps)/[^"]+)"', text, re.M)


def wanted(text, owners, name):
    words = set(re.findall(r"\b[A-Za-z_]\w*\b", code_of(text)))
    return {owners[word] for word in words if word in owners} - {name}


def system_lacks(text):
    """System headers that this file's code needs and does not include."""
    has = set(re.findall(r"^#include <([^>]+)>", text, re.M))
    return {header for header, names in SYSTEM.items() if header not in has and re.search(names, code_of(text))}


def covered(headers):
    return set(headers) | {each for header in headers for each in PASSED_ON.get(header, [])}


def rewritten(text, ours, system):
    """The file with these includes instead of the present ones: a sorted block each for the kernel's, libbpf's and ours."""
    kernels = sorted(f"<{each}>" for each in system if not each.startswith("bpf/"))
    libbpfs = sorted(f"<{each}>" for each in system if each.startswith("bpf/"))
    blocks = [each for each in (kernels, libbpfs, sorted(f'"{each}"' for each in ours)) if each]
    made = "\n".join("".join(f"#include {each}\n" for each in block) for block in blocks)
    head, *rest = re.split(r"^#include [^\n]*\n", text, flags=re.M)
    if not rest:
        return re.sub(r"^(#define SLUICE_\w+\n\n)", lambda guard: guard.group(1) + made + "\n", text, count=1, flags=re.M)
    return head + made + "\n" + "".join(rest).lstrip("\n")


def main():
    headers = {str(path.relative_to(ROOT)): path.read_text()
               for folder in ("bpf", "maps/abi") for path in sorted((ROOT / folder).rglob("*.h"))}
    owners = {}
    for name, text in headers.items():
        for each in defined(name, text):
            owners.setdefault(each, name)
    files = {name: text for name, text in headers.items() if name.startswith("bpf/")}
    files |= {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "bpf").glob("*.bpf.c"))}
    wrong = 0
    for name, text in files.items():
        uses, has = wanted(text, owners, name), includes_of(text)
        lacks = uses - covered(has)
        # A variable may have the name of its struct (lb_choices), which then has two owners.
        tags = {header for tag in re.findall(r"\bstruct (\w+)", code_of(text)) for header in has if f"\nstruct {tag} {{" in headers[header]}
        idle = {header for header in has if not (uses | tags) & covered([header])}
        for header in sorted(lacks):
            words = sorted(word for word in set(re.findall(r"\b\w+\b", code_of(text))) if owners.get(word) == header)
            print(f"{name}: uses {', '.join(words[:3])} of {header}, which it does not include")
        for header in sorted(idle):
            print(f"{name}: includes {header} and uses nothing of it")
        for header in sorted(system_lacks(text)):
            print(f"{name}: needs <{header}>, which it does not include")
        wrong += len(lacks) + len(idle) + len(system_lacks(text))
        if "--write" in sys.argv and (lacks or idle or system_lacks(text)):
            chosen = (set(has) | lacks) - idle
            chosen -= {each for header in chosen for each in PASSED_ON.get(header, [])}
            system = set(re.findall(r"^#include <([^>]+)>", text, re.M)) | system_lacks(text)
            (ROOT / name).write_text(rewritten(text, chosen, system))
    print(f"{len(files)} files of bpf/, {wrong} includes that are missing or idle")
    return 1 if wrong or not files else 0


sys.exit(main())
