# SPDX-License-Identifier: Apache-2.0
"""Checks docs/semantics.md and docs/reliability.md against the tree: every row and choice that any file names exists, and each
row names the tests that name it, or says why there are none. Prints one line for each mistake: where, what, what to do.

usage: contract.py [--write] [TREE]     --write: first writes each row's list of tests from what the tests name"""

import bisect
import pathlib
import re
import sys
import textwrap

from tree import files_of

PAGES = {"docs/semantics.md": "SEM", "docs/reliability.md": "REL"}
SCENARIOS = "tests/golden/features/"
GLOB = SCENARIOS + "*.txt"
MOST_SCENARIOS = 3  # a row that more scenarios show names the folder
WIDTH = 120

TESTS = re.compile(r"tests/.*\.(cpp|hpp|c|h|sh|py)|" + re.escape(SCENARIOS) + r"[^/]*\.txt")
# Excluded: tables made from tables_*.py, which have the same names; external bytes; and this file and its test, which
# contain deliberate mistakes.
LEFT_OUT = re.compile(r".*\.table|tests/corpus/.*|LICENSES?/?.*|scripts/lib/contract(_test)?\.py")

# Between two numbers of a list there may be a line break, with the next line's comment sign.
GAP = r"(?: |\s*\n\s*(?:#|//+|\*)?\s*)"
ROW = re.compile(r"\b(SEM|REL)-(\d{1,3}[a-z]?)\b")
NEXT_ROW = re.compile(rf"(,|{GAP}(?:to|and|or)\b){GAP}?(?:(SEM|REL)-)?(\d{{1,3}}[a-z]?)\b(?![.,]\d)")
CHOICE = re.compile(rf'(?:\b[Cc]hoices?|"Our{GAP}choices"){GAP}([A-Z])\b')
NEXT_CHOICE = re.compile(rf"(?:,|{GAP}(?:and|or)\b){GAP}([A-Z])\b")
HEADING = re.compile(r"### ((SEM|REL)-\d+[a-z]?|Choice [A-Z])$")
SHOWN = r"((SEM|REL)-\d+[a-z]?)( choice [A-Z])?"
SHOWN_LIST = re.compile(rf"{SHOWN}(, {SHOWN})*")

# Names of pages outside of the repository, and numbers of their tables and of issues.
OUTSIDE = re.compile(r"\b(SEMANTICS|RELIABILITY|MEASURES|DESIGN|PLATFORM|STYLE)\b|\btable 3[12]\b|\b[Ii]ssue \d+, item\b")


class Row:
    """A row or a choice: its place, and the lines [first, last) of its page with its list of tests."""

    def __init__(self, name, page, line):
        self.name, self.page, self.line = name, page, line
        self.section = ""
        self.words = 0
        self.tests = None
        self.first = self.last = 0

    def says_why(self):
        """Whether the row gives a reason for having no tests."""
        return re.match(r"Tests: (not yet|none)\. +\S", self.tests or "")

    def places(self):
        return [] if self.says_why() else re.findall(r"`([^`]+)`", self.tests or "")


def text_of(path):
    """The file's text; empty for a binary file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def listed(kind, first, following):
    """The rows of a list that begins with `first`, such as "SEM-1, 2" or "REL-30 to 34"."""
    names, last = [f"{kind}-{first}"], first
    for joint, new_kind, number in following:
        kind = new_kind or kind
        if joint.strip().endswith("to") and last.isdigit() and number.isdigit():
            names += [f"{kind}-{each}" for each in range(int(last) + 1, int(number))]
        names.append(f"{kind}-{number}")
        last = number
    return names


def following(pattern, text, at):
    """The adjacent matches of `pattern` from offset `at` on."""
    found = pattern.match(text, at)
    while found:
        yield found
        found = pattern.match(text, found.end())


def references(text):
    """(offset, name) of each row and choice that a text names; a range names all rows between its ends."""
    for found in ROW.finditer(text):
        rest = [each.groups() for each in following(NEXT_ROW, text, found.end())]
        yield from ((found.start(), name) for name in listed(found[1], found[2], rest))
    for found in CHOICE.finditer(text):
        letters = [found[1]] + [each[1] for each in following(NEXT_CHOICE, text, found.end())]
        yield from ((found.start(), f"Choice {letter}") for letter in letters)


class Lines:
    """Maps an offset to its line number."""

    def __init__(self, text):
        self.starts = [0] + [found.end() for found in re.finditer("\n", text)]

    def of(self, offset):
        return bisect.bisect(self.starts, offset)


def rows_of(page, text):
    """The rows of a page, in order."""
    rows, section, in_tests = [], "", False
    for number, line in enumerate(text.splitlines()):
        heading = HEADING.match(line)
        if line.startswith("## "):
            section = line
        if heading:
            rows.append(Row(heading[1], page, number + 1))
            rows[-1].section = section
        if line.startswith("#"):
            current = rows[-1] if heading else None
            in_tests = False
        elif rows and current:
            if line.startswith("Tests:"):
                in_tests, current.first, current.tests = True, number, ""
            if in_tests and line:
                current.tests += line + " "
                current.last = number + 1
            in_tests = in_tests and bool(line)
            current.words += 0 if in_tests else len(line.split())
    return rows


def order_of(name):
    number = re.search(r"\d+", name)
    return (0, int(number[0]), name) if number else (1, 0, name)


def unlisted(row, shown_by):
    """The tests that name a row and that the row does not list, by name or by a glob."""
    places = row.places()
    return [path for path in sorted(shown_by) if path not in places and not (GLOB in places and path.startswith(SCENARIOS))]


class Contract:
    def __init__(self, tree):
        self.tree = tree
        self.mistakes = []
        self.paths = [path for path in files_of(tree) if not LEFT_OUT.fullmatch(path)]
        self.texts = {path: text_of(tree / path) for path in self.paths}
        self.rows = [row for page in PAGES for row in rows_of(page, self.texts.get(page, ""))]
        self.shown_by = {}  # name: {test}
        for path in self.paths:
            if TESTS.fullmatch(path):
                for _, name in references(self.texts[path]):
                    self.shown_by.setdefault(name, set()).add(path)

    def wrong(self, path, line, what):
        self.mistakes.append(f"{path}:{line}: {what}")

    # ---- The pages. ----

    def check_pages(self):
        known = set()
        for page, kind in PAGES.items():
            if page not in self.texts:
                self.wrong(page, 1, "is not there: it holds the rows that everything else names")
            rows = [row for row in self.rows if row.page == page]
            for row, after in zip(rows, rows[1:]):
                if row.section == after.section and order_of(row.name) > order_of(after.name):
                    self.wrong(page, after.line, f"{after.name} stands behind {row.name}: put it where its number belongs")
            for row in rows:
                self.check_row(row, kind, known)
                known.add(row.name)

    def check_row(self, row, kind, known):
        if row.name in known:
            self.wrong(row.page, row.line, f"{row.name} is there twice: numbers are given once, take the next free one")
        if row.name.startswith(("SEM", "REL")) and not row.name.startswith(kind):
            self.wrong(row.page, row.line, f"{row.name} belongs into the other page")
        if row.words < 5:
            self.wrong(row.page, row.line, f"{row.name} says nothing: write its rule in a sentence or two")
        self.check_tests(row)

    def check_tests(self, row):
        line = row.first + 1
        shown_by = self.shown_by.get(row.name, set())
        if row.tests is None:
            self.wrong(row.page, row.line, f'{row.name} has no paragraph "Tests:": name its tests, or say "Tests: not yet." and why')
            return
        if not row.places() and not shown_by:
            if not row.says_why():
                self.wrong(row.page, line, f'{row.name} names no test: say "Tests: not yet." or "Tests: none." and why')
            return
        for place in row.places():
            self.check_place(row, place, shown_by)
        for path in unlisted(row, shown_by):
            self.wrong(row.page, line, f"{row.name} does not list {path}, which names it: run scripts/lib/contract.py --write")

    def check_place(self, row, place, shown_by):
        line = row.first + 1
        if place == GLOB:
            if not any(path.startswith(SCENARIOS) for path in shown_by):
                self.wrong(row.page, line, f"no scenario of {SCENARIOS} names {row.name}: run scripts/lib/contract.py --write")
        elif place not in self.texts:
            self.wrong(row.page, line, f"{row.name} lists {place}, which is not there: run scripts/lib/contract.py --write")
        elif place not in shown_by:
            self.wrong(row.page, line, f"{row.name} lists {place}, which does not name it: name the row in the test, "
                       "or run scripts/lib/contract.py --write")

    # ---- The tree. ----

    def check_references(self):
        names = {row.name for row in self.rows}
        for path, text in self.texts.items():
            lines = None
            for offset, name in references(text):
                if name not in names:
                    lines = lines or Lines(text)
                    page = "docs/reliability.md" if name.startswith("REL") else "docs/semantics.md"
                    self.wrong(path, lines.of(offset), f"names {name}, which {page} has not: correct it, or write that row")
            for found in OUTSIDE.finditer(text):
                lines = lines or Lines(text)
                self.wrong(path, lines.of(found.start()), f'"{found[0]}" is a page outside of the repository: name a row, or a '
                           "page of docs/")

    def check_scenarios(self):
        for path in self.paths:
            if path.startswith(SCENARIOS):
                second = (self.texts[path].splitlines() + ["", ""])[1]
                if not SHOWN_LIST.fullmatch(second):
                    self.wrong(path, 2, 'is no list of rows: write what the scenario shows, as "SEM-4, SEM-21 choice H"')

    def check(self):
        self.check_pages()
        self.check_references()
        self.check_scenarios()
        return self.mistakes

    # ---- Writing. ----

    def list_of(self, row):
        paths = self.shown_by[row.name]
        scenarios = sorted(path for path in paths if path.startswith(SCENARIOS))
        others = sorted(paths - set(scenarios))
        return ([GLOB] if len(scenarios) > MOST_SCENARIOS else scenarios) + others

    def write(self):
        """Writes each row's list of tests, if tests name the row."""
        for page in PAGES:
            lines = self.texts[page].splitlines()
            for row in reversed([row for row in self.rows if row.page == page]):
                if row.tests is not None and row.name in self.shown_by:
                    text = "Tests: " + ", ".join(f"`{path}`" for path in self.list_of(row)) + "."
                    lines[row.first:row.last] = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
            (self.tree / page).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments):
    write = "--write" in arguments
    named = [each for each in arguments if each != "--write"]
    tree = pathlib.Path(named[0]) if named else pathlib.Path(__file__).resolve().parents[2]
    if write:
        Contract(tree).write()
    contract = Contract(tree)
    mistakes = contract.check()
    print("\n".join(mistakes + [f"{len(contract.rows)} rows and choices, {len(mistakes)} mistakes"]))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
