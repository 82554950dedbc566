# SPDX-License-Identifier: Apache-2.0
"""Counts functions and conditional compilation of the C and C++ sources, and fails if a function is longer than its folder allows, a
file has more than 700 lines, or a new `#if` selects a feature (features are data: docs/decisions/005). usage: figures.py"""

import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The most lines of a function; a test case may be a table with a loop below it.
MOST_LINES = {"agent": 60, "bpf": 60, "maps": 60, "k8s": 60, "bench": 60, "tests": 120}
MOST_FILE_LINES = 700
SIGNATURE = re.compile(r"^(\s*)(?!.*\b(?:if|for|while|switch|catch|namespace|else|do)\b\s*[({]).*\)[\w\s:,<>&*()]*\{$")
# Allowed conditions: headers that two compilers read, and features of the machine's libraries.
CONDITIONS = re.compile(r"^\s*#\s*(?:if|ifdef|elif)\b(.*)", re.M)
ALLOWED = re.compile(r"__cplusplus|__BPF__|__bpf__|__has_feature|__SANITIZE|NDEBUG")


def functions(lines):
    """(first line, number of lines) of each function body. Its end is in the column of its beginning, as clang-format writes it."""
    for number, line in enumerate(lines):
        found = SIGNATURE.match(line) or (line == "{" and number and lines[number - 1].endswith(")"))
        if not found:
            continue
        indent = re.match(r"\s*", line).group()
        for length, other in enumerate(lines[number + 1:], 1):
            if other.startswith(f"{indent}}}"):
                yield number + 1, length - 1
            if other.startswith(f"{indent}}}") or (other.strip() and len(other) - len(other.lstrip()) < len(indent)):
                break  # its end, or it was a condition of several lines


def main():
    lengths, wrong, conditions = [], [], 0
    for part, most in MOST_LINES.items():
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix not in (".c", ".h", ".cpp", ".hpp"):
                continue
            name, text = path.relative_to(ROOT), path.read_text()
            lines = text.splitlines()
            if len(lines) > MOST_FILE_LINES:
                wrong.append(f"{name}: {len(lines)} lines, and {MOST_FILE_LINES} at most")
            for condition in CONDITIONS.findall(text):
                if not ALLOWED.search(condition):
                    conditions += 1
                    wrong.append(f"{name}: #if{condition} chooses at compile time")
            for first, length in functions(lines):
                lengths.append(length)
                if length > most:
                    wrong.append(f"{name}:{first}: a function of {length} lines, and {most} at most")
    print("\n".join(wrong))
    tenth = statistics.quantiles(lengths, n=10)[-1]
    print(f"{len(lengths)} functions, median {statistics.median(lengths):.0f} lines, nine of ten below {tenth:.0f}, longest {max(lengths)}; "
          f"{conditions} conditions")
    return 1 if wrong else 0


sys.exit(main())
