# SPDX-License-Identifier: Apache-2.0
"""Generates docs/maps.md from the BTF of the programs' object: every map with its key, value, default size, and their members."""

import json
import subprocess

# linux/bpf.h: enum bpf_map_type, and the flags that our maps use.
TYPES = {1: "HASH", 2: "ARRAY", 6: "PERCPU ARRAY", 9: "LRU HASH", 11: "LPM TRIE", 24: "SK_STORAGE", 25: "DEVMAP HASH"}
FLAGS = {1: "no preallocation", 1 << 10: "mmapable"}
# Per-packet state of one CPU, of no use in a dump.
NOT_SHOWN = {"lb_scratch"}


class Btf:
    def __init__(self, path):
        dump = subprocess.run(["bpftool", "-j", "btf", "dump", "file", path], capture_output=True, text=True, check=True).stdout
        self.types = {each["id"]: each for each in json.loads(dump)["types"]}

    def plain(self, number):
        """The type without typedefs and qualifiers, except typedefs of integers, whose name is clearer."""
        kind = self.types.get(number, {"kind": "VOID"})
        return self.plain(kind["type_id"]) if kind["kind"] in ("TYPEDEF", "CONST", "VOLATILE") else kind

    def size(self, number):
        kind = self.plain(number)
        if kind["kind"] == "ARRAY":
            return kind["nr_elems"] * self.size(kind["type_id"])
        return 8 if kind["kind"] == "PTR" else kind.get("size", 0)

    def name(self, number):
        kind = self.types.get(number, {"kind": "VOID"})
        if kind["kind"] == "ARRAY":
            return f"{self.name(kind['type_id'])}[{kind['nr_elems']}]"
        if kind["kind"] in ("CONST", "VOLATILE"):
            return self.name(kind["type_id"])
        if kind.get("name", "(anon)") == "(anon)":
            return kind["kind"].lower()
        return f"enum {kind['name']}" if kind["kind"].startswith("ENUM") else kind["name"]

    def macro_number(self, number):
        """The value of __uint() of bpf_helpers.h, which is encoded as a pointer to an array of that size."""
        return self.types[self.types[number]["type_id"]]["nr_elems"]

    def maps(self):
        section = next(each for each in self.types.values() if each["kind"] == "DATASEC" and each["name"] == ".maps")
        for variable in (self.types[each["type_id"]] for each in section["vars"]):
            yield variable["name"], {each["name"]: each["type_id"] for each in self.types[variable["type_id"]]["members"]}

    def pointee(self, number):
        return self.types[number]["type_id"]


def type_text(btf, members):
    flags = btf.macro_number(members["map_flags"]) if "map_flags" in members else 0
    words = [text for bit, text in FLAGS.items() if flags & bit]
    return ", ".join([TYPES[btf.macro_number(members["type"])], *words])


def side(btf, members, name):
    """(text, size in bytes, type) of a key or value."""
    if name in members:
        number = btf.pointee(members[name])
        return f"`{btf.name(number)}`", btf.size(number), number
    sizes = members.get(f"{name}_size")
    return "", btf.macro_number(sizes) if sizes else 0, None


def structs_of(btf, number, found):
    """Every named struct, union and enum that this type refers to, directly or not, each once, in order."""
    kind = btf.plain(number) if number is not None else {"kind": "VOID"}
    if kind["kind"] == "ARRAY":
        structs_of(btf, kind["type_id"], found)
    elif kind["kind"].startswith("ENUM"):
        found.setdefault(kind["name"], kind)
    elif kind["kind"] in ("STRUCT", "UNION") and kind["name"] not in NOT_SHOWN:
        if kind["name"] != "(anon)":
            found.setdefault(kind["name"], kind)
        for member in kind["members"]:
            structs_of(btf, member["type_id"], found)


def member_rows(btf, kind):
    for member in kind["members"]:
        yield f"| `{member['name'].replace('(anon)', '–')}` | `{btf.name(member['type_id'])}` | {member['bits_offset'] // 8} | {btf.size(member['type_id'])} |\n"


def enum_row(name, kind):
    values = ", ".join(f"`{each['name']}` {each['val']}" for each in kind["values"])
    return f"| `{name}` | {values} |\n"


def maps_page(path, made):
    btf = Btf(path)
    rows, structs = [], {}
    for name, members in sorted(btf.maps()):
        key, key_bytes, key_type = side(btf, members, "key")
        value, value_bytes, value_type = side(btf, members, "value")
        entries = f"{btf.macro_number(members['max_entries']):,}" if "max_entries" in members else "–"
        rows.append(f"| `{name}` | {type_text(btf, members)} | {key} | {value} | {key_bytes} + {value_bytes} | {entries} |\n")
        structs_of(btf, key_type, structs)
        structs_of(btf, value_type, structs)
    parts = ["# Maps\n\n" + made + "\nThe maps below `/sys/fs/bpf/sluice/vN/maps`, as the programs define them; sizes are options of the agent.\n"
             "[LAYOUT](../maps/abi/LAYOUT.md) says who writes each, how long an entry lives, and how it changes under a reader.\n\n"
             "| map | type | key | value | bytes | entries by default |\n|---|---|---|---|---|---|\n" + "".join(rows)]
    for name, kind in sorted(structs.items()):
        if kind["kind"].startswith("ENUM"):
            continue
        parts.append(f"## {name}\n\n{kind['size']} bytes.\n\n| member | type | offset | bytes |\n|---|---|---|---|\n" +
                     "".join(member_rows(btf, kind)))
    enums = [(name, kind) for name, kind in sorted(structs.items()) if kind["kind"].startswith("ENUM")]
    parts.append("## Enumerations\n\n| enumeration | values |\n|---|---|\n" + "".join(enum_row(*each) for each in enums))
    return "\n".join(parts)


def names(path):
    """Every name that a dump may show: of a map, a member or an enum value."""
    btf = Btf(path)
    found = {name for name, _ in btf.maps()}
    for kind in btf.types.values():
        found |= {each["name"] for each in kind.get("members", []) + kind.get("values", [])}
    return found
