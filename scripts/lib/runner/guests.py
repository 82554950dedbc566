# SPDX-License-Identifier: Apache-2.0
"""Level kernels: boots guests with other kernels by scripts/lib/vm, whose tests are runner.in_guest's."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runner import process, results, scenarios, verifier
from runner.execute import Context
from runner.results import Result
from runner.selection import Item
from runner.settings import CI_GUESTS_END, LIBRARY, RUNNER

SHARED = "shared"
NICE = 10


class Guests:
    def __init__(self, context: Context) -> None:
        self.context = context
        lines = [line.partition(" ") for line in context.environment.get("KERNELS", "").splitlines()]
        # By their names; without a directory if there is no such kernel here.
        self.kernels = {name: directory for name, _, directory in lines}

    def results_of(self, kernel: str, name: str) -> Path:
        return self.context.settings.logs / f"kernel-{kernel}" / name

    def boot(self, kernel: str, name: str, settings: Sequence[str], selections: Sequence[str]) -> int | None:
        """Runs a guest; prefixes each line of its output with the kernel. Returns its exit code, or nothing if it is
        too late."""
        report, title = self.context.report, f"the guest of Linux {kernel}"
        if self.context.settings.too_late:
            report.left_out(title)
            return None
        directory = self.results_of(kernel, name)
        limit = f"VM_SECONDS={self.context.settings.seconds_of_a_guest:.0f}"
        vm = [str(LIBRARY / "vm"), self.kernels[kernel], str(directory), *RUNNER, "guest", kernel, *selections]
        machine = subprocess.Popen(
            ["env", limit, *settings, *vm],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.context.environment,
            text=True,
            errors="replace",
        )
        with report.running(title), machine as guest:
            for line in guest.stdout or ():
                report.say(f"{kernel}: {line.rstrip()}")
        return guest.returncode

    def boot_all(self, name: str, selections: Sequence[str], settings: Sequence[str]) -> dict[str, int]:
        """Runs guests on all kernels, as many at once as this machine has processors, because a guest has one. The
        newest begin: they take a minute or two, and CI may leave out the last. Returns the exit codes of those that
        ran."""
        kernels = [kernel for kernel, directory in reversed(self.kernels.items()) if directory]
        for kernel in self.kernels:
            shutil.rmtree(self.results_of(kernel, name), ignore_errors=True)
        processors = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(processors, initializer=process.lower_priority, initargs=(NICE,)) as pool:
            codes = dict(zip(kernels, pool.map(lambda kernel: self.boot(kernel, name, settings, selections), kernels)))
        ended = {kernel: code for kernel, code in codes.items() if code is not None}
        for kernel, code in ended.items():
            self.count(kernel, name, code)
        return ended

    def count(self, kernel: str, name: str, code: int) -> None:
        """Adds a guest's results."""
        report, selection = self.context.report, f"kernels/{name}" if name != SHARED else "kernels"
        if code == process.LIMIT_CODE and self.context.settings.limited:
            report.say(f"the rest of Linux {kernel}: LEFT OUT: not through after {CI_GUESTS_END // 60} minutes of CI")
        elif code:
            text = f"the guest of Linux {kernel} ended before its last test (exit code {code})"
            report.fail("kernels", text, selection)

        def of_kernel(result: Result) -> None:
            result.title, result.level = f"{kernel}: {result.title}", "kernels"
            result.failures = [f"{kernel}: {why}" for why in result.failures]
            result.selection = "kernels/" + result.selection.removeprefix("kernels/")

        if not report.add_file(self.results_of(kernel, name) / results.FILE, of_kernel) and code == 0:
            report.fail("kernels", f"the guest of Linux {kernel} has no results", selection)

    def level(self, items: Sequence[Item]) -> None:
        """Runs the level, or what is named of it."""
        report = self.context.report
        own = [item.name for item in items if scenarios.guest_settings(item.name)]
        chosen = [item.name for item in items if item.name and item.name not in own]
        if chosen or len(own) < len(items):
            selections = [name if name.startswith(("net/", "net:", "prog:")) else f"kernels/{name}" for name in chosen]
            ended = self.boot_all(SHARED, selections, [])
        for name in own:
            self.boot_all(name, [f"kernels/{name}"], scenarios.guest_settings(name))
        for kernel, directory in self.kernels.items():
            if not directory:
                report.say(f"kernels: NOT TRIED: there is no Linux '{kernel}' here, and none could be fetched")
        if not any(self.kernels.values()):
            title = "kernels: there is no Linux here, and none could be fetched"
            report.add(Result(title, "kernels", "kernels", skipped=1))
        elif chosen or len(own) < len(items):
            self.verifier_limits([kernel for kernel in self.kernels if ended.get(kernel) == 0], bool(chosen))

    def verifier_limits(self, kernels: Sequence[str], chosen: bool) -> None:
        """For the guests that reached their end: tests what they counted, and prints it. A selection need not count
        anything; the short and the long form do, but for the former with PREEMPT_RT."""
        by_kernel: dict[str, dict[str, int]] = {}
        for kernel in kernels:
            file = self.results_of(kernel, SHARED) / verifier.FILE
            text = file.read_text() if file.exists() else ""
            if not text and (chosen or kernel.endswith("-rt")):
                continue
            counts = verifier.counts(text)
            result = Result(f"Linux {kernel}: the verifier's instructions", "kernels", "kernels")
            by_kernel[kernel] = counts or {}
            if counts is None:
                result.fail(f"{file} has no counts, or other lines")
            else:
                over = max(counts.values()) > verifier.MOST
                result.judge(over, f"a program takes more than {verifier.MOST:,} of 1,000,000 (the table is below)")
            self.context.report.add(result)
        if by_kernel:
            title = "instructions that the verifier went through at most, of 1,000,000:"
            self.context.report.say("\n".join([title, *verifier.table(by_kernel)]))
