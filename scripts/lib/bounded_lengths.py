# SPDX-License-Identifier: Apache-2.0
"""Checks in a compiled object of BPF programs that the length of each helper is a constant on every way to the call, or is bounded by lb_bounded()
(bpf/packet/length.h) in the register that is passed, with nothing but copies of 64 bits in between, and is in registers all the time: what a
verifier remembers of spilled values, 32-bit copies and linked registers differs between kernels. Which arguments are lengths is read from the helpers' declarations in linux/bpf.h.
usage: bounded_lengths.py OBJECT"""

import re
import subprocess
import sys
from pathlib import Path

HEADER = "/usr/include/linux/bpf.h"
# Not lengths of the memory before them, but of the packet.
CONTEXTS = {"skb", "skops", "msg", "xdp_md"}
# The kernel's functions, whose declarations no header has, with the arguments that are lengths.
KFUNCS = {"bpf_skb_ct_lookup": (3, 5), "bpf_xdp_ct_lookup": (3, 5), "bpf_ct_release": (), "bpf_cast_to_kern_ctx": (), "bpf_sock_destroy": ()}


def helpers(text):
    """By number: the helper's name and which of its arguments are lengths."""
    numbers = {name: int(number) for name, number in re.findall(r"\bFN\((\w+), (\d+), ##ctx\)", text)}
    found = {}
    for name, listed in re.findall(r"^ \* \w[\w *]*?[ *]bpf_(\w+)\((.*?)\)$", text, re.M):
        lengths, before = [], ""
        for place, argument in enumerate(listed.split(","), 1):
            size = re.search(r"\b(?:\w*_)?(?:len|size|plen|optlen)$", argument)
            if size and "*" in before and before.split("*")[-1].strip() not in CONTEXTS:
                lengths.append(place)
            before = argument
        found[numbers[name]] = (f"bpf_{name}", tuple(lengths))
    return found


class Function:
    """A function's instructions: their slots, bytes and texts, which of them may come before each, and the symbols that they call."""

    def __init__(self, name):
        self.name, self.slots, self.code, self.texts, self.symbols = name, [], [], [], {}

    def add(self, slot, code, text):
        self.slots.append(slot)
        self.code.append(code)
        self.texts.append(text)

    def before(self):
        """For each instruction the indices of those from which it is reached; -1: the function's start."""
        place = {slot: index for index, slot in enumerate(self.slots)}
        found = [[] for _ in self.slots]
        found[0].append(-1)
        for index, text in enumerate(self.texts):
            jump = re.search(r"\bgoto ([+-])(?:0x)?([0-9a-f]+)$", text)
            if jump:
                found[place[self.slots[index] + 1 + int(jump.group(1) + jump.group(2), 16)]].append(index)
            if not text.startswith(("goto", "exit")) and index + 1 < len(found):
                found[index + 1].append(index)
        return found


def functions(disassembly):
    found = []
    for line in disassembly.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.+)>:$", line)
        relocation = re.match(r"^\s+[0-9a-f]+:\s+R_BPF_64_32\s+(\S+)$", line)
        instruction = re.match(r"^\s+(\d+):\s+((?:[0-9a-f]{2} ?)+)\t(.+?)(?: <.*>)?$", line)
        if head:
            found.append(Function(head.group(1)))
        elif relocation and found:
            found[-1].symbols[len(found[-1].texts) - 1] = relocation.group(1)
        elif instruction and found:
            found[-1].add(int(instruction.group(1)), instruction.group(2), instruction.group(3))
    return found


def bounded(function, index, register):
    """Whether the four instructions that end at `index` are lb_bounded() of the register."""
    pattern = (
        rf"if r{register} >= (0x[0-9a-f]+) goto \+0x1",
        rf"r{register} = (0x[0-9a-f]+)",
        rf"if r{register} <= (0x[0-9a-f]+) goto \+0x1",
        rf"r{register} = (0x[0-9a-f]+)",
    )
    texts = function.texts[max(index - 3, 0) : index + 1]
    parts = [re.fullmatch(each, text) for each, text in zip(pattern, texts)]
    return len(parts) == 4 and all(parts) and parts[0].group(1) == parts[1].group(1) and parts[2].group(1) == parts[3].group(1)


def unbounded(function, before, call, register):
    """Why the register at the call is neither bounded nor a constant on each way to it; None if it is."""
    to_do, seen = [(call, register, 64)], set()
    while to_do:
        here = to_do.pop()
        if here in seen:
            continue
        seen.add(here)
        at, register, width = here
        if at > 0 and bounded(function, at - 1, register) and set(before[at]) == {at - 2, at - 1}:
            if width == 32:
                return "it is copied in 32 bits after its bound"
            continue
        for index in before[at]:
            if index < 0:
                return "it is an argument of this function"
            text = function.texts[index]
            copy = re.fullmatch(rf"([rw]){register} = [rw](\d)", text)
            if copy:
                to_do.append((index, int(copy.group(2)), width if copy.group(1) == "r" else 32))
            elif re.fullmatch(rf"[rw]{register} = -?0x[0-9a-f]+", text):
                continue
            elif re.match(rf"[rw]{register} \S*= ", text) or (text.startswith("call") and register < 6):
                return f"it comes from instruction {function.slots[index]}, '{text}'"
            else:
                to_do.append((index, register, width))
    return None


def called(function, index, known):
    """The name of what the instruction calls, and which arguments are lengths; None if that is not known here."""
    symbol = function.symbols.get(index, "").split("___")[0]
    if not function.code[index].startswith("85 10"):
        return known.get(int(function.texts[index].split()[1], 16))
    return (symbol, KFUNCS.get(symbol)) if symbol.startswith("bpf_") else (symbol, ())


def wrong(disassembly, known):
    for function in functions(disassembly):
        before = function.before()
        for index, (slot, text) in enumerate(zip(function.slots, function.texts)):
            if not text.startswith("call "):
                continue
            name, lengths = called(function, index, known) or (text, None)
            if lengths is None:
                yield f"{function.name}: instruction {slot} calls {name}: which of its arguments are lengths is not known here"
            for register in lengths or ():
                reason = unbounded(function, before, index, register)
                if reason:
                    yield f"{function.name}: instruction {slot}: the length of {name} (argument {register}) is not bounded: {reason}"


def disassembly_of(path):
    command = ["llvm-objdump-19", "-dr", "--mcpu=v3", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    disassembly = disassembly_of(sys.argv[1])
    found = list(wrong(disassembly, helpers(Path(HEADER).read_text())))
    if not functions(disassembly):
        found.append(f"{sys.argv[1]}: has no functions")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
