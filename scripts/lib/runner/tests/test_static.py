# SPDX-License-Identifier: Apache-2.0
"""The checks that the runner has itself find deliberate mistakes, and the table's checks can fail."""

import unittest
from functools import partial

from runner import levels, static
from runner.static import cut_off_writers, parse_mistake, subject_mistake
from runner.tests import context, directory, printed, script


class Checks(unittest.TestCase):
    def test_pipes(self) -> None:
        for line in (
            "ls | head -n 1",
            "ls | grep -q x",
            "ls |& grep -v y -m 1",
            "x | sed -n 1q",
            "x | awk '/a/ { exit }'",
            "x | { head; }",
            "x | if true; then grep --quiet y",
            "ls |\n  head",
        ):
            self.assertTrue(list(cut_off_writers(line.splitlines())), line)
        for line in (
            "# ls | head",
            "ls | sed -n 1p",
            "ls | header",
            "false || head x",
            "ls | grep x",
            "x | tail -n 1",
            "head x\n| cat",
        ):
            self.assertEqual(list(cut_off_writers(line.splitlines())), [], line)

    def test_scripts(self) -> None:
        with directory() as work:
            for name, text, good in (
                ("a.sh", "if true; then :; fi", True),
                ("a.sh", "if true; then", False),
                ("a.py", "x = 1", True),
                ("a.py", "x =", False),
            ):
                path = script(work / name, text + "\n")
                self.assertEqual(parse_mistake(path) == "", good, text)

    def test_subjects(self) -> None:
        self.assertEqual(subject_mistake("bpf/flow, maps: what it does"), "")
        for subject in ("No area", "bpf/flow:without a space", "bpf/flow: " + "x" * 63):
            self.assertTrue(subject_mistake(subject), subject)

    def test_the_table(self) -> None:
        self.assertEqual(len(set(static.names())), len(static.CHECKS))
        with directory() as work:
            run = context(work)
            for check in (
                static.Check("a", "passes", [["true"], ["true"]]),
                static.Check("b", "fails", [["false"], ["true"]]),
                static.Check("c", "finds", mistakes=lambda: iter(["a mistake"])),
                static.Check("d", "none", mistakes=lambda: iter([])),
            ):
                printed(partial(levels.check, run, check))
            self.assertEqual(
                [(result.passed, result.failed) for result in run.report.results], [(1, 0), (0, 1), (0, 1), (1, 0)]
            )
