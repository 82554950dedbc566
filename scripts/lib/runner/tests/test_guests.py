# SPDX-License-Identifier: Apache-2.0
"""Level kernels with a machine that is a shell script."""

import time
import unittest
from unittest import mock

from runner.guests import Guests
from runner.results import Result
from runner.selection import Options, plan
from runner.settings import Settings
from runner.tests import context, directory, printed, script

COUNTS = "instructions that the verifier went through\n" + "".join(
    f"  {name:<16} 10 to {{}}\n" for name in ("a", "b", "c")
)
# KERNEL RESULTS COMMAND...: writes what the kernel's directory has, and notes what it was asked for.
VM = 'mkdir -p "$2"; echo "$VM_SECONDS $1 ${*:6}" >>"$0.log"; cp "$1"/* "$2"; echo "a line"; exit "$(<"$1/code")"\n'


class Level(unittest.TestCase):
    def setUp(self) -> None:
        entered = directory()
        self.work = entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)
        script(self.work / "vm", VM)
        self.settings = Settings()

    def kernel(self, name: str, code: int = 0, most: int = 1000, **counts: int) -> str:
        folder = self.work / name
        folder.mkdir()
        (folder / "code").write_text(str(code))
        (folder / "instructions").write_text(COUNTS.format(*[most] * 3))
        result = Result("prog", "prog", "prog:x*", **counts)  # type: ignore[arg-type]
        (folder / "results.jsonl").write_text(result.line() if counts else "")
        return f"{name} {folder}\n"

    def level(self, kernels: str, *arguments: str) -> str:
        self.context = context(self.work, self.settings)
        self.context.environment["KERNELS"] = kernels
        with mock.patch("runner.guests.LIBRARY", self.work):
            return printed(lambda: Guests(self.context).level(plan(Options.of(arguments))))

    def test_the_newest_first(self) -> None:
        with mock.patch("os.sched_getaffinity", return_value={0}):
            output = self.level(self.kernel("6.1", passed=2) + self.kernel("7.2", passed=3), "kernels")
        self.assertEqual(
            [line.split("/")[-1].split()[0] for line in (self.work / "vm.log").read_text().splitlines()], ["7.2", "6.1"]
        )
        self.assertIn("6.1: a line\n", output)
        self.assertEqual(self.context.report.counts, "7 passed, 0 failed")  # with the verifier's limits

    def test_failures(self) -> None:
        self.level(
            self.kernel("6.1", code=125, passed=2) + self.kernel("6.12", failed=1) + self.kernel("7.2"), "kernels"
        )
        failed = {result.title: result.selection for result in self.context.report.results if result.failed}
        self.assertEqual(
            failed,
            {
                "the guest of Linux 6.1 ended before its last test (exit code 125)": "kernels",
                "6.12: prog": "kernels/prog:x*",
                "the guest of Linux 7.2 has no results": "kernels",
            },
        )

    def test_ci_ends_guests(self) -> None:
        self.settings = Settings(ci="true", started=time.monotonic() - 65 * 60)
        output = self.level(self.kernel("6.1", code=124, passed=2), "kernels")
        self.assertIn("the rest of Linux 6.1: LEFT OUT: not through after 75 minutes of CI\n", output)
        self.assertEqual(self.context.report.counts, "2 passed, 0 failed")
        self.assertAlmostEqual(int((self.work / "vm.log").read_text().split()[0]), 600, delta=30)
        self.settings.started -= 8 * 60
        output = self.level(self.kernel("6.2", passed=2), "kernels")
        self.assertIn("the guest of Linux 6.2: LEFT OUT: 72 minutes of CI are over\n", output)

    def test_kernels_that_are_not_here(self) -> None:
        output = self.level("6.1\n" + self.kernel("7.2", passed=1), "kernels")
        self.assertIn("kernels: NOT TRIED: there is no Linux '6.1' here, and none could be fetched\n", output)
        self.assertEqual(self.context.report.counts, "2 passed, 0 failed")
        self.level("6.1\n", "kernels")
        self.assertEqual(self.context.report.counts, "0 passed, 0 failed, 1 skipped")

    def test_selections(self) -> None:
        kernel = self.kernel("6.1", passed=1)
        self.level(kernel, "kernels/vlan", "kernels/net/growing", "kernels/prog:x*")
        self.level(kernel, "kernels/virtio")
        lines = [line.split(maxsplit=2)[2] for line in (self.work / "vm.log").read_text().splitlines()]
        self.assertEqual(lines, ["6.1 kernels/vlan net/growing prog:x*", "6.1 kernels/virtio"])

    def test_the_verifiers_limits(self) -> None:
        output = self.level(self.kernel("6.1", most=500_001, passed=1) + self.kernel("6.12", passed=1), "kernels")
        self.assertIn("  a                   500001      1000\n", output)
        self.assertEqual(self.context.report.counts, "3 passed, 1 failed")
        (self.work / "6.12/instructions").write_text("heading\n  a 1 to 2\n  what\n")
        self.level(f"6.12 {self.work / '6.12'}\n", "kernels")
        self.assertEqual(self.context.report.counts, "1 passed, 1 failed")
