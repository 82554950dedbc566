# SPDX-License-Identifier: Apache-2.0
"""Checks statements about kernels against what the level `kernels` boots (scripts/lib/kernels): "Linux 6.1 or later" in documents, manifests and
messages names the oldest of LINES, and docs/kernels.md lists these and the developers' own as tested; of distributions only those that the level
boots from: "tested" if they have one of LINES, "loads" if their suites are those of NEWEST. usage: promised_kernels.py"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ("README.md", "docs/*.md", "k8s/**/*.yaml", "k8s/**/*.md", "agent/**/*.cpp", "agent/**/*.hpp")
# Listed in docs/kernels.md in addition to the booted ones, because all other levels run on it.
DEVELOPERS = "6.18"
WORDS = ("tested", "loads", "expected", "untested", "not served")
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13", "sid": "Debian 14"}


def booted():
    lines = re.search(r"^LINES=\(([\d. ]+)\)$", (ROOT / "scripts/lib/kernels").read_text(), re.M)
    return sorted(lines.group(1).split(), key=version)


def distributions():
    suites = re.search(r"^\tprintf '%s\\n' ([\w -]+)$", (ROOT / "scripts/lib/kernels").read_text(), re.M)
    return {RELEASES[suite.split("-")[0]] for suite in suites.group(1).split()}


def newest():
    """The distributions whose newest kernels are booted; experimental is no distribution."""
    listed = re.search(r"^NEWEST=\(\n(.*?)^\)$", (ROOT / "scripts/lib/kernels").read_text(), re.M | re.S)
    suites = {suite for line in re.findall(r'"\w+=\S+ (.+)"', listed.group(1)) for suite in line.split()}
    return {RELEASES[suite.split("-")[0]] for suite in suites - {"experimental"}}


def version(line):
    return [int(part) for part in line.split(".")]


def wrong_promises(oldest):
    for place in PLACES:
        for page in sorted(ROOT.glob(place)):
            for number, line in enumerate(page.read_text().splitlines(), 1):
                for promised in re.findall(r"(?:Linux |kernels? (?:before )?|\()(\d+\.\d+)(?: or (?:later|newer)|\+)", line):
                    if promised != oldest:
                        yield f"{page.relative_to(ROOT)}:{number}: promises Linux {promised}, and the oldest that is booted is {oldest}"


def wrong_rows(lines):
    table = (ROOT / "docs/kernels.md").read_text().split("## Distributions")[0]
    tested = set(re.findall(r"^\| (\d+\.\d+) \| tested \|", table, re.M))
    for line in sorted(tested - {*lines, DEVELOPERS}):
        yield f"docs/kernels.md: calls {line} tested, which the level kernels does not boot"
    for line in sorted({*lines, DEVELOPERS} - tested):
        yield f"docs/kernels.md: does not call {line} tested"
    if f"| before {lines[0]} | not served |" not in table:
        yield f"docs/kernels.md: has no row 'before {lines[0]}'"


def wrong_distributions(page, lines, booted_from, newest_from):
    """Wrong rows. A row must say "tested" if the level boots that distribution's package, "loads" if it does so with what is newest there, and
    "expected" if its kernel is tested elsewhere."""
    ours = set()
    for row in re.findall(r"^\| (.+) \|$", page.split("## Distributions")[1].split("\n## ")[0], re.M)[1:]:
        name, kernels, status = (cell.strip() for cell in row.split("|")[:3])
        named = set(re.findall(r"\b[4-9]\.\d+", kernels))
        where = f"docs/kernels.md: '{name}' ({kernels}) is called '{status}'"
        if not any(re.search(rf"\b{word}\b", status) for word in WORDS):
            yield f"{where}, which is none of: {', '.join(WORDS)}"
        if status.startswith("tested"):
            ours |= named
            if status != "tested" or not named <= set(lines) or not any(re.match(rf"{each}\b", name) for each in booted_from):
                yield f"{where}, and the level kernels boots {', '.join(lines)} of {', '.join(sorted(booted_from))} alone"
        if status.startswith("loads") and not any(re.match(rf"{each}\b", name) for each in newest_from):
            yield f"{where}, and the level kernels boots what is newest of {', '.join(sorted(newest_from))} alone"
        if re.search(r"\bexpected\b", status) and not named & {*lines, DEVELOPERS}:
            yield f"{where}, and none of these is tested anywhere"
        if "not served" in status and not any(version(each) < version(lines[0]) for each in named):
            yield f"{where}, and {lines[0]} is the oldest that is served"
    for line in sorted(set(lines) - ours):
        yield f"docs/kernels.md: calls no distribution of {line} tested"


def main():
    lines = booted()
    readme = (ROOT / "README.md").read_text()
    wrong = [*wrong_promises(lines[0]), *wrong_rows(lines)]
    wrong += wrong_distributions((ROOT / "docs/kernels.md").read_text(), lines, distributions(), newest())
    if f"Linux {lines[0]} or later" not in readme:
        wrong.append(f"README.md: does not say 'Linux {lines[0]} or later'")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
