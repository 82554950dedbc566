# SPDX-License-Identifier: Apache-2.0
"""Counts of Catch2 programs, scenarios and fuzz targets; the cache, CI's limits and rules."""

import time
import unittest
from functools import partial
from pathlib import Path
from unittest import mock

from runner import execute
from runner.results import Result
from runner.settings import CI_ENDS, Settings
from runner.tests import context, directory, printed, script

# A Catch2 program: writes the XML that the test wants, and exits with the code that it wants.
CATCH = """
echo run >>"$0.runs"
for word; do [[ $word != xml::out=* ]] || cp "$0.xml" "${word#xml::out=}"; done
exit "$(<"$0.code")"
"""
CASE = (
    '<TestCase name="{}"><Expression type="CHECK" filename="a.cpp" line="7"><Original>x == 1</Original></Expression>'
    '<OverallResult success="{}" skips="{}" durationInSeconds="1.5"/></TestCase>'
)


def xml(successes: int = 0, failures: int = 0, skips: int = 0, expected: int = 0, cases: str = "") -> str:
    return (
        f'<Catch2TestRun>{cases}<OverallResultsCases successes="{successes}" failures="{failures}" '
        f'expectedFailures="{expected}" skips="{skips}"/></Catch2TestRun>'
    )


class Execute(unittest.TestCase):
    def setUp(self) -> None:
        entered = directory()
        self.work = entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)
        self.context = context(self.work)

    def results(self) -> list[Result]:
        return self.context.report.results

    def counts(self) -> tuple[int, int, int]:
        last = self.results()[-1]
        return last.passed, last.failed, last.skipped


class Catch(Execute):
    def catch(self, text: str, code: int = 0, **more: object) -> str:
        program = script(self.work / "build/tests/test_net", CATCH)
        Path(f"{program}.xml").write_text(text)
        Path(f"{program}.code").write_text(str(code))
        run = partial(execute.catch_level, self.context, "net", self.work / "build", **more)  # type: ignore[arg-type]
        return printed(run)

    def runs(self) -> int:
        return len((self.work / "build/tests/test_net.runs").read_text().splitlines())

    def test_passed(self) -> None:
        output = self.catch(xml(4, expected=1))
        self.assertEqual(self.counts(), (5, 0, 0))
        self.assertRegex(output, r"^net: 4 cases passed, 0 failed +\d+ s\n$")

    def test_failed(self) -> None:
        self.catch(xml(1, 2, cases=CASE.format("one", "true", 0) + CASE.format("two, [x]", "false", 0)), 2)
        self.assertEqual(self.counts(), (1, 2, 0))
        self.assertEqual([case.outcome for case in self.results()[-1].cases], ["passed", "failed"])
        self.assertEqual(self.results()[-1].cases[1].message, "a.cpp:7: x == 1")
        self.assertEqual(self.results()[-1].selection, r"net:two\, \[x]")

    def test_skipped(self) -> None:
        self.catch(xml(1, skips=2, cases=CASE.format("one", "true", 1)), 4)
        self.assertEqual(self.counts(), (1, 0, 2))
        self.context.settings.ci = "true"
        self.catch(xml(1, skips=2, cases=CASE.format("one", "true", 1)), 4)
        self.assertEqual(self.counts(), (1, 2, 0))
        self.assertEqual(self.results()[-1].cases[0].outcome, "failed")

    def test_ended_early(self) -> None:
        self.catch("<Catch2TestRun><TestCase name='a'>", 139)
        self.assertEqual(self.counts(), (0, 1, 0))
        self.assertIn("ended before its summary (exit code 139", self.results()[-1].failures[0])

    def test_exit_code_alone(self) -> None:
        self.catch(xml(3), 1)
        self.assertEqual(self.counts(), (3, 1, 0))

    def test_no_case(self) -> None:
        self.catch(xml())
        self.assertEqual(self.counts(), (0, 1, 0))

    def test_not_built(self) -> None:
        printed(lambda: execute.catch_level(self.context, "prog", self.work / "build"))
        self.assertEqual(self.counts(), (0, 1, 0))

    def test_the_cache(self) -> None:
        self.catch(xml(4))
        output = self.catch(xml(4))
        self.assertEqual(output, "net: unchanged since it passed, not run (--again runs it)\n")
        self.assertEqual((self.counts(), self.runs()), ((4, 0, 0), 1))
        self.catch(xml(4), named=True)
        self.assertEqual(self.runs(), 2)
        self.catch(xml(4), tests="one*")
        self.assertEqual(self.runs(), 3)
        self.context.settings.again = True
        self.catch(xml(4))
        self.assertEqual(self.runs(), 4)

    def test_failures_and_skips_are_not_remembered(self) -> None:
        for text, code in ((xml(1, 1), 1), (xml(1, skips=1), 0), (xml(1), 1)):
            before = len(self.results())
            self.catch(text, code)
            self.catch(text, code)
            self.assertEqual([result.cached for result in self.results()[before:]], [False, False])

    def test_ci_leaves_out_what_begins_too_late(self) -> None:
        self.context.settings.ci = "yes"
        self.context.settings.started = time.monotonic() - CI_ENDS - 1
        self.assertEqual(self.catch(xml(4)), "net: LEFT OUT: 72 minutes of CI are over\n")
        self.assertEqual(self.results(), [])
        self.context.settings.long = True
        self.catch(xml(4))
        self.assertEqual(self.counts(), (4, 0, 0))


class Others(Execute):
    def scenario(self, text: str) -> str:
        path = script(self.work / "tree/tests/net/a.sh", text)
        with mock.patch("runner.scenarios.find", return_value=path):
            return printed(lambda: execute.scenario(self.context, "net", "a"))

    def test_scenarios(self) -> None:
        for code, counts in ((0, (1, 0, 0)), (77, (0, 0, 1)), (1, (0, 1, 0)), (143, (0, 1, 0))):
            output = self.scenario(f"echo its output; exit {code}")
            self.assertEqual(self.counts(), counts)
            self.assertRegex(output, rf"net/a.sh: exit code {code} +\d+ s\n")
            self.assertEqual("its output" in output, code not in (0, 77))
        self.assertIn("unchanged", self.scenario("echo its output; exit 0"))
        self.assertIn("exit code 0", self.scenario("exit 0"))

    def test_the_limit_of_a_scenario(self) -> None:
        with mock.patch.object(Settings, "seconds_of_a_test", 0.3):
            self.scenario("sleep 30")
        self.assertEqual(self.results()[-1].failures, ["net/a.sh: exit code 124 (124 is the limit of 0.3 s)"])

    def test_fuzz_targets(self) -> None:
        script(self.work / "tests/fuzz_decode", 'echo "$*"; [[ $* == *-runs=10* ]]')
        with mock.patch("runner.execute.SANITIZED", self.work):
            output = printed(lambda: execute.fuzz_target(self.context, "decode", 10))
            self.assertRegex(output, r"^fuzz_decode: 10 inputs of seed 1, exit code 0 +\d+ s\n$")
            printed(lambda: execute.fuzz_target(self.context, "decode", 20))
        self.assertEqual([(result.passed, result.failed) for result in self.results()], [(1, 0), (0, 1)])


class Limits(unittest.TestCase):
    def test_seconds(self) -> None:
        self.assertEqual((Settings().seconds_of_a_test, Settings(long=True).seconds_of_a_test), (2700, 7200))
        self.assertEqual((Settings().seconds_of_a_guest, Settings(long=True).seconds_of_a_guest), (5400, 36000))
        late = Settings(ci="true", started=time.monotonic() - 70 * 60)
        self.assertAlmostEqual(late.seconds_of_a_guest, 5 * 60, delta=5)
        self.assertFalse(late.too_late)
        self.assertEqual(Settings(ci="true", long=True).seconds_of_a_guest, 36000)
