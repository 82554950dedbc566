# SPDX-License-Identifier: Apache-2.0
"""Checks the documents: links lead somewhere (files, and headings in them), paths in backquotes exist, options of `sluice`
commands exist, tests that docs/threats.md names exist, words are spelled, and lines have at most 120 columns. Rows of tables
are longer where Markdown has no other way, and are counted. usage: documents.py"""

import pathlib
import re
import shutil
import subprocess
import sys

from tree import files_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "bpf", "bench", "docs", "k8s", "maps", "scripts", "tests", ".ci")
# Files about the past, and quotations: their paths may have changed since.
HISTORY = ("CHANGELOG.md", "docs/decisions")
WIDTH = 120


def pages():
    return [ROOT / path for path in files_of(ROOT) if path.endswith(".md")]


def anchors(text):
    """The anchors that GitHub generates for headings."""
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"^#+ +(.*)", text, re.M)}


def prose(text):
    """The text with the lines of code blocks emptied, so that line numbers remain."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)


def bad_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        path = page.parent / name if name else page
        if not path.exists():
            yield f"links to {target}, which does not exist"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
            yield f"links to {target}, which has no such heading"


def exists(name, page):
    """Whether the file or folder exists, relative to the root or to the page. For patterns and generated files, the folder must exist."""
    name = name.rstrip("/")
    if any(sign in name for sign in "<>{}$|…") or "NAME" in name:
        return True
    for base in (ROOT, page.parent):
        if list(base.glob(name)) or list(base.glob(name + ".*")):
            return True
    return False


def bad_paths(page, text):
    pattern = r"`((?:" + "|".join(map(re.escape, FOLDERS)) + r")/[\w./*-]+)[` :#]"
    for name in sorted(set(re.findall(pattern, text))):
        if not exists(name, page):
            yield f"names `{name}`, which does not exist"


def known_options():
    """The options of each command. `sluice check` also takes the agent's."""
    sections = re.split(r"^## `sluice (\w+)`$", (ROOT / "docs/options.md").read_text(), flags=re.M)
    known = {command: set(re.findall(r"`(--[a-z][\w-]+)", text)) | {"--help"} for command, text in zip(sections[1::2], sections[2::2])}
    known["check"] |= known["agent"]
    return known


def bad_options(text, known):
    for call, command in re.findall(rf"\b(sluice ({'|'.join(known)})\b[^`\n#|;&]*)", text):
        for option in re.findall(r"(--[a-z][\w-]+)", call):
            if option not in known[command]:
                yield f"calls `{call.strip()}`, and `sluice {command}` has no {option}"


# The paths of a level's tests, by the names in docs/threats.md.
TESTS = {
    "unit": ("tests/unit/**/{}.cpp",),
    "golden": ("tests/golden/features/{}.txt",),
    "fuzz": ("tests/fuzz/fuzz_{}.c*",),
    "prog": ("tests/prog/**/{}.cpp",),
    "net": ("tests/net/**/{}.cpp", "tests/net/**/{}.sh"),
    "kernels": ("tests/kernels/{}.sh",),
    "e2e": ("tests/e2e/{}.sh",),
    "cluster": ("tests/cluster/{}.sh",),
}


def packet_tables():
    """The tables that a file generates, read from the lines that name them."""
    lines = [line for path in ROOT.glob("tests/prog/fixtures/tables_*.py") for line in path.read_text().splitlines() if "Table(" in line]
    return set(re.findall(r'"(\w+)"', "\n".join(lines)))


def unwrapped(text):
    """The text with each paragraph and each item of a list on one line."""
    return re.sub(r"(?<=\S)\n *(?=[^\s|#>-])", " ", text)


def named_tests(text):
    """(level, name) of each word in backquotes. A word of the form `LEVEL: NAME` has that level, and so have those that follow it in one
    list, separated by commas, each perhaps with words in parentheses; other words have none."""
    for line in unwrapped(text).splitlines():
        level, end = None, 0
        for found in re.finditer(r"`([^`]+)`", line):
            if not re.fullmatch(r"(?: \([^`()]*\))?[,;] ", line[end:found.start()]):
                level = None
            end = found.end()
            own = re.fullmatch(r"(\w+): ([\w-]+)", found[1])
            if own:
                level = own[1]
            yield level, own[2] if own else found[1]


def bad_tests(text):
    """Tests of docs/threats.md that do not exist; a file name may be anywhere in the tests."""
    tables = packet_tables()
    for level, word in named_tests(text):
        if re.fullmatch(r"\w+\.(cpp|py|sh)", word):
            patterns = ("tests/**/{}",)
        elif level and level not in TESTS:
            yield f"names the level {level}, which does not exist"
            continue
        elif level and word != "NAME" and re.fullmatch(r"[\w-]+", word):
            patterns = TESTS[level]
        else:
            continue
        if not any(any(ROOT.glob(pattern.format(word))) for pattern in patterns) and not (level == "prog" and word in tables):
            yield f"names the test {word}" + (f" of level {level}" if level else "") + ", which does not exist"


def misspelled(names):
    if not shutil.which("codespell"):
        return ["codespell is not installed; scripts/setup installs it"]
    done = subprocess.run(["codespell", "--ignore-words-list", ",".join(("te", "ans", "fo", "nd", "sie", "als", "unter", "wit", "aks")), *names],
                          capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.splitlines()


def is_row(line):
    return line.lstrip().startswith("|")


def too_long(text):
    """Lines of more than WIDTH columns, except rows of tables and links that have no place to break."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > WIDTH and not is_row(line) and " " in line.strip(" -*>"):
            yield f"line {number} has {len(line)} columns, and {WIDTH} are allowed"


def main():
    wrong, known, rows = [], known_options(), 0
    for page in pages():
        text, name = page.read_text(), str(page.relative_to(ROOT))
        wrong += [f"{name}: {what}" for what in bad_links(page, prose(text))]
        wrong += [f"{name}: {what}" for what in too_long(text)]
        rows += sum(len(line) > WIDTH and is_row(line) for line in text.splitlines())
        if not name.startswith(HISTORY):
            wrong += [f"{name}: {what}" for what in bad_paths(page, prose(text))]
            wrong += [f"{name}: {what}" for what in bad_options(text, known)]
        if name == "docs/threats.md":
            wrong += [f"{name}: {what}" for what in bad_tests(prose(text))]
    wrong += misspelled([str(page.relative_to(ROOT)) for page in pages()])
    print("\n".join([*wrong, f"{len(pages())} pages, {len(wrong)} mistakes; {rows} rows of tables have more than {WIDTH} columns"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
