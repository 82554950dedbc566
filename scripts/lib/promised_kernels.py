"""Checks statements about kernels against what the level `kernels` boots (LINES in scripts/lib/kernels): "Linux 6.1 or later" in documents,
manifests and messages names the oldest of them, and docs/kernels.md lists these and the developers' own as tested. usage: promised_kernels.py"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ("README.md", "docs/*.md", "k8s/**/*.yaml", "k8s/**/*.md", "agent/**/*.cpp", "agent/**/*.hpp")
# In docs/kernels.md beside the booted ones, because all other levels run there.
DEVELOPERS = "6.18"


def booted():
    lines = re.search(r"^LINES=\(([\d. ]+)\)$", (ROOT / "scripts/lib/kernels").read_text(), re.M)
    return sorted(lines.group(1).split(), key=lambda line: [int(part) for part in line.split(".")])


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


def main():
    lines = booted()
    readme = (ROOT / "README.md").read_text()
    wrong = [*wrong_promises(lines[0]), *wrong_rows(lines)]
    if f"Linux {lines[0]} or later" not in readme:
        wrong.append(f"README.md: does not say 'Linux {lines[0]} or later'")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
