# SPDX-License-Identifier: Apache-2.0
"""Makes a copy of the agent with a program that every verifier refuses, because it writes beyond its stack.

usage: refused_program.py AGENT OBJECT COPY PROGRAM|VARIABLE+OFFSET...: OBJECT is the file of programs that the agent has in it.
PROGRAM: spoiled near its end. VARIABLE+OFFSET, as "lb_choices+0": a byte of read-only data; what runs where it is not zero is
spoiled, in each function that asks for it, so that the programs load once it is zero."""

import os
import struct
import sys

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQ")
INSTRUCTION = struct.Struct("<BBhi")
SYMBOL_TABLE, RELOCATIONS = 2, 9
SLOT = 8
WIDE = 0x18  # a constant of 64 bits, in two slots
LOADS, LOAD_BYTE = 0x01, 0x71
IF_ZERO, IF_NOT_ZERO = (0x15, 0x16), (0x55, 0x56)
ALU, FROM_REGISTER = (0x04, 0x07), 0x08  # classes of instructions
# *(u64 *)(r10 + 8) = r10
BEHIND_THE_STACK = struct.pack("<BBhi", 0x7B, 0xAA, 8, 0)


def sections(elf):
    begin, = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    return [SECTION.unpack_from(elf, begin + number * size) for number in range(count)]


def symbols(elf):
    """All symbols as (name, section, value, size), in the order of their numbers."""
    all_of_them = sections(elf)
    _, _, _, _, offset, size, link, *_ = next(each for each in all_of_them if each[1] == SYMBOL_TABLE)
    names = all_of_them[link][4]
    for at in range(offset, offset + size, SYMBOL.size):
        name, _, _, section, value, length = SYMBOL.unpack_from(elf, at)
        yield elf[names + name:].split(b"\0", 1)[0].decode(), section, value, length


def late_instruction(elf, begin, end):
    """The last single-slot instruction before the final one, which must be an exit or a jump."""
    found, at = begin, begin
    while at < end - SLOT:
        is_wide = elf[at] == WIDE
        found = found if is_wide else at
        at += 2 * SLOT if is_wide else SLOT
    return found


def places_in(elf, program):
    """The file offset of the instruction to replace."""
    all_of_them = sections(elf)
    return [late_instruction(elf, all_of_them[section][4] + value, all_of_them[section][4] + value + length)
            for name, section, value, length in symbols(elf) if name == program and section < len(all_of_them)]


def plain_instruction(elf, at):
    """The first instruction from there on that computes with two registers: libbpf relocates none of these."""
    while elf[at] & 7 not in ALU or not elf[at] & FROM_REGISTER:
        at += 2 * SLOT if elf[at] == WIDE else SLOT
    return at


def where_set(elf, at, byte):
    """Behind a reference to the variable: where it goes on if that byte of it is not zero; None: it asks for another byte."""
    register = elf[at + 1] & 0xF
    for step in range(at + 2 * SLOT, at + 8 * SLOT, SLOT):
        code, registers, offset, value = INSTRUCTION.unpack_from(elf, step)
        if code & 7 == LOADS and registers >> 4 == register:
            if code != LOAD_BYTE or offset != byte:
                return None
            register = registers & 0xF
        elif code in IF_ZERO + IF_NOT_ZERO and registers & 0xF == register and value == 0:
            return step + SLOT + (offset * SLOT if code in IF_NOT_ZERO else 0)
    return None


def places_of(elf, variable, byte):
    all_of_them = sections(elf)
    names = [name for name, *_ in symbols(elf)]
    found = set()
    for _, kind, _, _, offset, size, _, target, *_ in all_of_them:
        if kind != RELOCATIONS:
            continue
        for at in range(offset, offset + size, RELOCATION.size):
            place, info = RELOCATION.unpack_from(elf, at)
            if names[info >> 32] == variable and elf[all_of_them[target][4] + place] == WIDE:
                set_there = where_set(elf, all_of_them[target][4] + place, byte)
                found |= {plain_instruction(elf, set_there)} if set_there else set()
    return found


def places(elf, what):
    name, _, byte = what.partition("+")
    return (places_of(elf, name, int(byte)) if byte else places_in(elf, name)) or sys.exit(f"no {what}")


def main(agent, object_file, copy, *spoiled):
    with open(agent, "rb") as file:
        binary = bytearray(file.read())
    with open(object_file, "rb") as file:
        elf = file.read()
    begin = binary.find(elf)
    if begin < 0:
        sys.exit(f"{agent} has other programs than {object_file}")
    for place in (place for what in spoiled for place in places(elf, what)):
        binary[begin + place:begin + place + SLOT] = BEHIND_THE_STACK
    with open(copy, "wb") as file:
        file.write(binary)
    os.chmod(copy, 0o755)


main(*sys.argv[1:])
