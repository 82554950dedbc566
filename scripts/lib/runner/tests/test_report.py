# SPDX-License-Identifier: Apache-2.0
"""Lines of counts and progress, times, and JUnit XML."""

import unittest
import xml.etree.ElementTree as ET
from functools import partial

from runner import junit, results
from runner.report import Report, excerpt, progress_line, times
from runner.results import Case, Result
from runner.settings import Settings
from runner.tests import directory, printed


class Counts(unittest.TestCase):
    def last_line(self, *added: Result) -> tuple[str, int]:
        report, codes = Report(Settings()), []

        def fill() -> None:
            for each in added:
                report.add(each)
            codes.append(report.end())

        return printed(fill).splitlines()[-1], codes[0]

    def test_the_last_line_counts(self) -> None:
        passed, failed, skipped = (Result("a", "net", "net", *counts) for counts in ((2, 0, 0), (0, 2, 0), (0, 0, 2)))
        self.assertEqual(self.last_line(passed), ("2 passed, 0 failed", 0))
        self.assertEqual(self.last_line(passed, skipped), ("2 passed, 0 failed, 2 skipped", 0))
        self.assertEqual(self.last_line(passed, failed), ("2 passed, 2 failed", 1))
        self.assertEqual(self.last_line(), ("0 passed, 0 failed", 1))

    def test_failures_are_listed(self) -> None:
        result = Result("net", "net", "net")
        result.fail("see above")
        report = Report(Settings())
        report.add(result)
        output = printed(report.end)
        self.assertIn("== failed\n  net: see above\n", output)


class Lines(unittest.TestCase):
    def test_progress(self) -> None:
        self.assertEqual(
            progress_line(125, 3, 10, 1, ["net/a", "unit"]),
            "-- 2 min 5 s: 3 of 10 done, 7 left, 1 failed; now net/a, unit",
        )
        self.assertEqual(progress_line(0, 10, 10, 0, []), "-- 0 min 0 s: 10 of 10 done, 0 left, 0 failed")

    def test_excerpts(self) -> None:
        long = [f"line {number}" for number in range(1000)]
        self.assertEqual(len(excerpt(long)), 231)
        self.assertEqual(excerpt(long)[-1], "line 999")
        self.assertEqual(excerpt(["0.001 s: a section", "a.cpp:3: failed", "x" * 500]), ["a.cpp:3: failed", "x" * 400])

    def test_times(self) -> None:
        many = [Result(f"net/{number}", "net", "", 1, seconds=number) for number in range(30)]
        lines = times(
            [
                *many,
                Result(
                    "unit", "unit", "", 2, seconds=50, cases=[Case("slow", seconds=40), Case("fast", seconds=0.001)]
                ),
            ]
        )
        self.assertEqual(len(lines), 21)
        self.assertEqual(lines[0], "      40.0 s  unit: slow")
        self.assertEqual(lines[-1], "by level: net 435 s, unit 50 s")


class Files(unittest.TestCase):
    RESULTS = [
        Result(
            "net",
            "net",
            "net",
            1,
            1,
            1,
            2.0,
            ["net: see above"],
            [Case("a"), Case("b", "failed", "a.cpp:1: x\x00\x1b < 1"), Case("c", "skipped", "no such device")],
        ),
        Result("net/a.sh", "net", "net/a", failed=1, failures=["net/a.sh: exit code 1"]),
        Result("unit", "unit", "unit", 7, cached=True),
    ]

    def test_junit(self) -> None:
        with directory() as work:
            junit.write(work / "junit.xml", self.RESULTS)
            root = ET.parse(work / "junit.xml").getroot()
        self.assertEqual([suite.attrib["tests"] for suite in root], ["3", "1", "1"])
        self.assertEqual([suite.attrib["failures"] for suite in root], ["1", "1", "0"])
        self.assertEqual(
            [case.tag for suite in root for case in suite.iter() if case.tag in ("failure", "skipped")],
            ["failure", "skipped", "failure"],
        )
        self.assertEqual(
            [failure.text for failure in root.iter("failure")], ["a.cpp:1: x?? < 1", "net/a.sh: exit code 1"]
        )

    def test_results_are_read_as_written(self) -> None:
        with directory() as work:
            report = Report(Settings(), work / "results.jsonl")
            for each in self.RESULTS:
                printed(partial(report.add, each))
            self.assertEqual(list(results.read(work / "results.jsonl")), self.RESULTS)
