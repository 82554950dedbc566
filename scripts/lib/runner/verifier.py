# SPDX-License-Identifier: Apache-2.0
"""The verifier's instruction counts, as tests/prog/packets/reached.cpp prints them: a heading, and a line for each
program."""

import re
from collections.abc import Sequence
from pathlib import Path

FILE = "instructions"  # among a guest's results
HEADING = "instructions that the verifier"
PROGRAM = re.compile(r"  ([a-z0-9_]+) +[0-9]+ to +([0-9]+)")
MOST = 500_000  # of the verifier's 1,000,000


def instructions(log: Path) -> list[str]:
    """The lines of a log that have them, so that growth is noticed."""
    lines, within = [], False
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        within = line.startswith(HEADING) or within and line.startswith("  ")
        if within:
            lines.append(line)
    return lines


def counts(text: str) -> dict[str, int] | None:
    """By program; None unless each line after the heading has a program, and there are three at least."""
    found = [PROGRAM.fullmatch(line) for line in text.splitlines()[1:]]
    read = {match[1]: int(match[2]) for match in found if match}
    return read if len(read) >= 3 and all(found) else None


def table(by_kernel: dict[str, dict[str, int]]) -> Sequence[str]:
    programs = list(dict.fromkeys(program for each in by_kernel.values() for program in each))
    return [
        f"  {'':<16}" + "".join(f" {kernel:>9}" for kernel in by_kernel),
        *(
            f"  {program:<16}" + "".join(f" {each.get(program, ''):>9}" for each in by_kernel.values())
            for program in programs
        ),
    ]
