# SPDX-License-Identifier: Apache-2.0
"""A sandbox whose script is killed: its processes end with it, and the next one removes the rest."""

import os
import signal
import subprocess
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from runner.settings import LIBRARY
from runner.tests import directory

SANDBOX = 'set -euo pipefail; source "$0/common.sh"; source "$0/sandbox.sh"; sandbox "$@"'
RECORDS = Path("/run/sluice-sandboxes")
# What scenarios and guests make: a namespace, a pin, a mount, a memory cgroup, a process that ignores signals in a
# session of its own.
LEAVES = """
ip netns add left && mkdir /sys/fs/bpf/left && mkdir -p "$TMPDIR/mounted" && mount -t tmpfs left "$TMPDIR/mounted"
source "$0/common.sh"; source "$0/sandbox.sh"; read -r place _ < <(memory_cgroup); mkdir "$place/left"
setsid bash -c "trap '' TERM HUP INT; touch '$1/ready'; sleep 1000; sleep 1000"
"""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def sandbox(*command: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", "-c", SANDBOX, LIBRARY, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def state() -> list[str]:
    """What could be left behind, but for records, whose scripts may run beside this test."""
    return sorted(
        str(path) for where in ("/run/netns", "/sys/fs/bpf") if Path(where).exists() for path in Path(where).iterdir()
    )


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class Killed(unittest.TestCase):
    def setUp(self) -> None:
        entered = directory()
        self.work = entered.__enter__()
        self.addCleanup(entered.__exit__, None, None, None)

    def start(self) -> tuple[subprocess.Popen[bytes], list[Path]]:
        """A sandbox that has made everything, and the paths in its record."""
        before = set(RECORDS.iterdir()) if RECORDS.exists() else set()
        script = sandbox("bash", "-c", LEAVES, LIBRARY, self.work)
        self.assertTrue(within(120, (self.work / "ready").exists))
        for record in set(RECORDS.iterdir()) - before:
            return script, [record, *map(Path, filter(None, record.read_text().splitlines()))]
        self.fail("there is no record")

    def test_kill(self) -> None:
        before = state()
        script, (record, files, *cgroups) = self.start()
        self.assertTrue((cgroups[0] / "cgroup.procs").exists() and (files / "mounted").exists())
        script.send_signal(signal.SIGKILL)
        script.wait()
        events = cgroups[0] / "cgroup.events"
        self.assertTrue(within(60, lambda: "populated 0" in events.read_text()), "processes live on")
        self.assertEqual(state(), before)
        self.assertTrue(record.exists())
        self.assertEqual(sandbox("true").wait(), 0)
        self.assertEqual(
            [path for path in (record, files, *Path("/sys/fs/cgroup").rglob(files.name)) if path.exists()], []
        )

    def test_a_living_sandbox_is_not_swept(self) -> None:
        script, paths = self.start()
        self.assertEqual(sandbox("true").wait(), 0)
        self.assertEqual([path for path in paths if not path.exists()], [])
        script.terminate()
        self.assertEqual(script.wait(), 143)
        self.assertEqual([path for path in paths if path.exists()], [])

    def test_the_exit_code_is_the_commands(self) -> None:
        self.assertEqual(sandbox("bash", "-c", "exit 42").wait(), 42)
        self.assertEqual(sandbox("bash", "-c", "kill -KILL $$").wait(), 137)
