# SPDX-License-Identifier: Apache-2.0
"""Tests contract.py on small trees with deliberate mistakes: it reports each kind of mistake, and none in a correct tree."""

import pathlib
import tempfile
import unittest

from contract import Contract, references

SEMANTICS = """# Rows

## 1. Objects

### SEM-1

**One rule.** It says what holds and no more.

### SEM-2

**Another rule.** It says what holds and no more.

Tests: not yet. Nobody has written one.

## 2. Choices

### Choice A

This is what was chosen, and nothing else.
"""
RELIABILITY = """# Faults

### REL-5

**A fault.** It says what holds and no more.
"""
GOOD = {
    "docs/semantics.md": SEMANTICS,
    "docs/reliability.md": RELIABILITY,
    "tests/golden/features/one.txt": "A scenario.\nSEM-1\n",
    "tests/unit/one.cpp": "// SEM-1, and choice A.\n",
    "tests/net/five.sh": "# REL-5: a fault.\n",
    "agent/plan/plan.cpp": "// The rule (SEM-1, 2).\n",
}


TRACEABILITY = """
- [SEM-1](semantics.md#sem-1) One rule: `tests/golden/features/one.txt`, `tests/unit/one.cpp`
- [SEM-2](semantics.md#sem-2) Another rule: not yet. Nobody has written one.

## Semantics, 2. Choices

- [Choice A](semantics.md#choice-a): `tests/unit/one.cpp`

## Reliability, rows

- [REL-5](reliability.md#rel-5) A fault: `tests/net/five.sh`
"""


def mistakes(traceability=None, **changes):
    """The mistakes reported for the correct tree after these files ("docs/semantics.md" is docs__semantics_md) are changed by (old, new).
    docs/traceability.md is then written anew, and changed by `traceability`."""
    files = dict(GOOD)
    for name, change in changes.items():
        path = next((each for each in files if each.replace("/", "__").replace(".", "_") == name), None)
        files[path or name] = files[path].replace(*change) if path else change
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
        Contract(tree).write()
        page = tree / "docs/traceability.md"
        if traceability == "absent":
            page.unlink()
        elif traceability:
            page.write_text(page.read_text(encoding="utf-8").replace(*traceability), encoding="utf-8")
        return Contract(tree).check()


class Mistakes(unittest.TestCase):
    def sees(self, words, **changes):
        found = mistakes(**changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_a_good_tree_has_none(self):
        self.assertEqual(mistakes(), [])

    def test_rows_that_are_named_and_not_there(self):
        self.sees("agent/plan/plan.cpp:1: names SEM-3", agent__plan__plan_cpp=("SEM-1, 2", "SEM-1 to 3"))
        self.sees("agent/plan/plan.cpp:2: names REL-6", agent__plan__plan_cpp=("\n", "\n// REL-6\n"))
        self.sees("agent/plan/plan.cpp:1: names Choice B", agent__plan__plan_cpp=("The rule", "Choice B"))

    def test_rows_that_no_test_names(self):
        self.sees("docs/reliability.md:3: REL-5 has no test", tests__net__five_sh=("REL-5", "Nothing"))
        self.sees("docs/semantics.md:5: SEM-1 has no test", tests__unit__one_cpp=("SEM-1", "Nothing"),
                  tests__golden__features__one_txt=("\nSEM-1\n", "\nREL-5\n"))
        self.sees("Choice A has no test", tests__unit__one_cpp=("choice A", "nothing"))
        self.sees("SEM-2 has no test", docs__semantics_md=("Tests: not yet. Nobody has written one.\n", ""))
        self.sees("SEM-1 has no test", tests__unit__one_cpp=("SEM-1", "Nothing"), agent__plan__plan_cpp=("2", "2; SEM-1"),
                  tests__golden__features__one_txt=("\nSEM-1\n", "\nREL-5\n"))

    def test_paragraphs_that_give_no_reason_or_are_wrong(self):
        self.sees('SEM-2 has a paragraph "Tests:" that gives no reason', docs__semantics_md=(" Nobody has written one.", ""))
        self.sees('REL-5 has a paragraph "Tests:" that gives no reason',
                  docs__reliability_md=("no more.\n", "no more.\n\nTests: `tests/net/five.sh`.\n"))
        self.sees("SEM-2 says that it has no test, and tests/net/five.sh names it", tests__net__five_sh=("REL-5", "SEM-2, REL-5"))

    def test_a_page_of_tests_that_is_stale(self):
        stale = "is not what the tests name: run scripts/lib/contract.py --write"
        self.sees(stale, traceability="absent")
        self.sees(f"docs/traceability.md:10: {stale}", traceability=("`tests/golden/features/one.txt`, ", ""))
        self.sees(stale, traceability=("`tests/net/five.sh`", "`tests/net/five.sh`, `tests/net/six.sh`"))
        self.sees(stale, traceability=("SEM-2", "SEM-3"))

    def test_the_page_of_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in GOOD.items():
                (pathlib.Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / path).write_text(text, encoding="utf-8")
            self.assertTrue(Contract(pathlib.Path(folder)).traceability().endswith(TRACEABILITY))

    def test_rows_out_of_order_twice_or_empty(self):
        self.sees("REL-4 stands behind REL-5", docs__reliability_md=(
            "no more.\n", "no more.\n\n### REL-4\n\nOne that says what holds.\n\nTests: not yet. It is new.\n"))
        self.sees("REL-5 is there twice", docs__reliability_md=(
            "no more.\n", "no more.\n\n### REL-5\n\nOne that says what holds.\n"))
        self.sees("SEM-2 says nothing", docs__semantics_md=("**Another rule.** It says what holds and no more.", "Todo."))

    def test_scenarios_whose_second_line_is_no_list(self):
        self.sees("one.txt:2: is no list", tests__golden__features__one_txt=("\nSEM-1\n", "\nSEM-1 and more\n"))

    def test_pages_outside_of_the_repository(self):
        self.sees('agent/plan/plan.cpp:1: "table 32"', agent__plan__plan_cpp=("The rule", "The table 32"))


class References(unittest.TestCase):
    def test_lists_and_ranges(self):
        def named(text):
            return [name for _, name in references(text)]
        self.assertEqual(named("SEM-1, 2; REL-30 to 32, 41."), ["SEM-1", "SEM-2", "REL-30", "REL-31", "REL-32", "REL-41"])
        self.assertEqual(named("SEM-45 to SEM-47"), ["SEM-45", "SEM-46", "SEM-47", "SEM-47"])
        self.assertEqual(named("(REL-23,\n// 74)"), ["REL-23", "REL-74"])
        self.assertEqual(named("SEM-30a"), ["SEM-30a"])
        self.assertEqual(named('("Our choices"\n * A and D)'), ["Choice A", "Choice D"])
        self.assertEqual(named("REL-3 5,000 flows"), ["REL-3"])


if __name__ == "__main__":
    unittest.main()
