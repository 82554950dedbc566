# SPDX-License-Identifier: Apache-2.0
"""Runs a command in its own process group, which ends with it, and within a time limit."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runner.settings import ROOT

LIMIT_CODE = 124  # as timeout(1) has it
KILL_AFTER = 10.0


@dataclass(frozen=True)
class Ended:
    code: int  # after a signal 128 plus its number, as shells have it; LIMIT_CODE after the limit
    seconds: float


def ends_within(pid: int, seconds: float) -> bool:
    """Waits for the end of a child, which remains to be reaped."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(max(0, int(seconds * 1000))))
    finally:
        os.close(handle)


def run(
    command: Sequence[str | Path],
    seconds: float,
    output: IO[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
) -> Ended:
    """SIGTERM to the group at the limit, SIGKILL KILL_AFTER later. What the command left behind in its group is killed,
    too."""
    started = time.monotonic()
    child = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=directory,
        process_group=0,
    )
    in_time = ends_within(child.pid, seconds)
    if not in_time:
        os.killpg(child.pid, signal.SIGTERM)
        ends_within(child.pid, KILL_AFTER)
    # Before the child is reaped: until then no other group can get its number.
    os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    if not in_time:
        code = LIMIT_CODE
    return Ended(code if code >= 0 else 128 - code, time.monotonic() - started)


def lower_priority(nice: int) -> None:
    """For the calling thread and what it starts (in Linux the niceness is a thread's); never raises the priority."""
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
