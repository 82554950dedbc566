# SPDX-License-Identifier: Apache-2.0
"""Time limits, and what remains of a command: nothing."""

import os
import time
import unittest
from pathlib import Path

from runner import process
from runner.process import run
from runner.tests import directory


class Run(unittest.TestCase):
    def setUp(self) -> None:
        entered = directory()
        self.work = entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)

    def run_shell(self, text: str, seconds: float = 20) -> process.Ended:
        with (self.work / "log").open("w") as output:
            return run(["bash", "-c", text], seconds, output, directory=self.work)

    def gone(self, file: str) -> bool:
        """Whether the process of that number ends within seconds."""
        pid = int((self.work / file).read_text())
        for _ in range(1000):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return True
            if state == "Z":
                return True
            time.sleep(0.05)
        return False

    def test_exit_codes(self) -> None:
        self.assertEqual(self.run_shell("exit 77").code, 77)
        self.assertEqual(self.run_shell("kill -KILL $$").code, 137)
        self.assertEqual(self.run_shell("cat; echo out; echo err >&2").code, 0)
        self.assertEqual((self.work / "log").read_text(), "out\nerr\n")

    def test_the_limit_lets_a_trap_clean_up(self) -> None:
        ended = self.run_shell("trap 'touch cleaned; exit 143' TERM; sleep 60 & wait", 3)
        self.assertEqual(ended.code, process.LIMIT_CODE)
        self.assertLess(ended.seconds, 30)
        self.assertTrue((self.work / "cleaned").exists())

    def test_the_limit_kills_what_ignores_it(self) -> None:
        process.KILL_AFTER, before = 0.5, process.KILL_AFTER
        self.addCleanup(setattr, process, "KILL_AFTER", before)
        ended = self.run_shell("trap '' TERM; bash -c 'echo $$ >child; sleep 60' & echo $$ >own; sleep 60; sleep 60", 3)
        self.assertEqual(ended.code, process.LIMIT_CODE)
        self.assertTrue(self.gone("own") and self.gone("child"))

    def test_what_a_command_leaves_behind_is_killed(self) -> None:
        self.assertEqual(self.run_shell("trap '' TERM; sleep 60 & echo $! >child").code, 0)
        self.assertTrue(self.gone("child"))

    def test_priorities_are_only_lowered(self) -> None:
        child = os.fork()
        if not child:
            os.setpriority(os.PRIO_PROCESS, 0, 12)
            process.lower_priority(10)
            kept = os.getpriority(os.PRIO_PROCESS, 0)
            process.lower_priority(19)
            os._exit(kept * 10 + os.getpriority(os.PRIO_PROCESS, 0) - 19)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 120)
