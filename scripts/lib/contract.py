# SPDX-License-Identifier: Apache-2.0
"""Checks docs/semantics.md and docs/reliability.md against the tree: every row and choice that any file names exists, each row
is named by a test or says why there is none, and docs/traceability.md lists the tests of each row. Prints one line for each
mistake: where, what, what to do.

usage: contract.py [--write] [TREE]     --write: first writes docs/traceability.md from what the tests name"""

import bisect
import itertools
import pathlib
import re
import sys
import textwrap

from tree import files_of

PAGES = {"docs/semantics.md": "SEM", "docs/reliability.md": "REL"}
TRACEABILITY = "docs/traceability.md"
SCENARIOS = "tests/golden/features/"
GLOB = SCENARIOS + "*.txt"
MOST_SCENARIOS = 3  # a row that more scenarios show names the folder
WIDTH = 120
HEAD = """# Rows and their tests

<!-- Made by scripts/lib/contract.py --write. Name the row in a test instead. -->

Each row and choice of [semantics.md](semantics.md) and [reliability.md](reliability.md), with the tests that name it.
A row that more than three scenarios of `tests/golden/features` show has the pattern of their names.
"""

TESTS = re.compile(r"tests/.*\.(cpp|hpp|c|h|sh|py)|" + re.escape(SCENARIOS) + r"[^/]*\.txt")
# Excluded: tables made from tables_*.py, which have the same names; external bytes; this file and its test, which contain
# deliberate mistakes; and the page that is made here.
LEFT_OUT = re.compile(r".*\.table|tests/corpus/.*|LICENSES?/?.*|scripts/lib/contract(_test)?\.py|docs/traceability\.md")

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
    """A row or a choice: its place, its text, and its paragraph "Tests:" if it has one, which says why it has no tests."""

    def __init__(self, name, page, line):
        self.name, self.page, self.line = name, page, line
        self.section = ""
        self.text = ""
        self.tests = None
        self.tests_line = line

    def says_why(self):
        """Whether the row gives a reason for having no tests."""
        return re.match(r"Tests: (not yet|none)\. +\S", self.tests or "")

    def title(self):
        """The bold words with which the text begins, without the full stop."""
        found = re.match(r"\*\*(.+?)\*\*", self.text)
        return found[1].rstrip(".:") if found else ""


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
                in_tests, current.tests, current.tests_line = True, "", number + 1
            if in_tests and line:
                current.tests += line + " "
            in_tests = in_tests and bool(line)
            current.text += "" if in_tests else line + " "
    for row in rows:
        row.text = row.text.strip()
    return rows


def order_of(name):
    number = re.search(r"\d+", name)
    return (0, int(number[0]), name) if number else (1, 0, name)


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
        if len(row.text.split()) < 5:
            self.wrong(row.page, row.line, f"{row.name} says nothing: write its rule in a sentence or two")
        self.check_tests(row)

    def check_tests(self, row):
        """A row has tests that name it, or a paragraph that says why not."""
        shown_by = sorted(self.shown_by.get(row.name, ()))
        if row.tests is None:
            if not shown_by:
                self.wrong(row.page, row.line, f'{row.name} has no test: name it in one, or say "Tests: not yet." or '
                           '"Tests: none." and why')
        elif not row.says_why():
            self.wrong(row.page, row.tests_line, f'{row.name} has a paragraph "Tests:" that gives no reason: say "Tests: not yet." or '
                       f'"Tests: none." and why, and leave lists of tests to {TRACEABILITY}')
        elif shown_by:
            self.wrong(row.page, row.tests_line, f"{row.name} says that it has no test, and {shown_by[0]} names it: remove the paragraph")

    def check_traceability(self):
        written = text_of(self.tree / TRACEABILITY) if (self.tree / TRACEABILITY).is_file() else ""
        made = self.traceability()
        if written != made:
            pairs = itertools.zip_longest(written.splitlines(), made.splitlines())
            line = next((number for number, (old, new) in enumerate(pairs, 1) if old != new), 1)
            self.wrong(TRACEABILITY, line, "is not what the tests name: run scripts/lib/contract.py --write")

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
        self.check_traceability()
        return self.mistakes

    # ---- The page that is made. ----

    def list_of(self, row):
        """The row's tests, or the reason for having none, as Markdown."""
        paths = self.shown_by.get(row.name)
        if not paths:
            return (row.tests or "none").removeprefix("Tests: ").strip()
        scenarios = sorted(path for path in paths if path.startswith(SCENARIOS))
        shown = ([GLOB] if len(scenarios) > MOST_SCENARIOS else scenarios) + sorted(paths - set(scenarios))
        return ", ".join(f"`{path}`" for path in shown)

    def entry_of(self, row):
        """The row as an item of a list: its name as a link, its title and its tests."""
        page = row.page.removeprefix("docs/")
        name = f"[{row.name}]({page}#{row.name.lower().replace(' ', '-')})"
        title = f" {row.title()}" if row.title() else ""
        return textwrap.fill(f"- {name}{title}: {self.list_of(row)}", WIDTH, subsequent_indent="  ", break_long_words=False,
                             break_on_hyphens=False)

    def traceability(self):
        """The text of docs/traceability.md."""
        parts, section = [HEAD], None
        for row in self.rows:
            if (row.page, row.section) != section:
                section = (row.page, row.section)
                page = row.page.removeprefix("docs/").removesuffix(".md").capitalize()
                parts.append(f"\n## {page}, {row.section.removeprefix('## ') or 'rows'}\n\n")
            parts.append(self.entry_of(row) + "\n")
        return "".join(parts)

    def write(self):
        (self.tree / TRACEABILITY).write_text(self.traceability(), encoding="utf-8")


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
