"""Makes a copy of the agent with one program that every verifier refuses: near its end it writes beyond its stack.

usage: refused_program.py AGENT OBJECT PROGRAM COPY: OBJECT is the file of programs that the agent has in it."""

import os
import struct
import sys

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMBOL_TABLE = 2
SLOT = 8
WIDE = 0x18  # a constant of 64 bits, in two slots
# *(u64 *)(r10 + 8) = r10
BEHIND_THE_STACK = struct.pack("<BBhi", 0x7B, 0xAA, 8, 0)


def sections(elf):
    begin, = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    return [SECTION.unpack_from(elf, begin + number * size) for number in range(count)]


def late_instruction(elf, begin, end):
    """The last single-slot instruction before the final one, which must be an exit or a jump."""
    found, at = begin, begin
    while at < end - SLOT:
        is_wide = elf[at] == WIDE
        found = found if is_wide else at
        at += 2 * SLOT if is_wide else SLOT
    return found


def place_of(elf, program):
    """The file offset of the instruction to replace."""
    all_of_them = sections(elf)
    for _, kind, _, _, offset, size, link, *_ in all_of_them:
        if kind != SYMBOL_TABLE:
            continue
        names = all_of_them[link][4]
        for at in range(offset, offset + size, SYMBOL.size):
            name, _, _, section, value, length = SYMBOL.unpack_from(elf, at)
            begin = all_of_them[section][4] + value if section < len(all_of_them) else 0
            if elf[names + name:].split(b"\0", 1)[0] == program.encode():
                return late_instruction(elf, begin, begin + length)
    sys.exit(f"no program {program}")


def main(agent, object_file, program, copy):
    with open(agent, "rb") as file:
        binary = bytearray(file.read())
    with open(object_file, "rb") as file:
        elf = file.read()
    begin = binary.find(elf)
    if begin < 0:
        sys.exit(f"{agent} has other programs than {object_file}")
    at = begin + place_of(elf, program)
    binary[at:at + len(BEHIND_THE_STACK)] = BEHIND_THE_STACK
    with open(copy, "wb") as file:
        file.write(binary)
    os.chmod(copy, 0o755)


main(*sys.argv[1:])
