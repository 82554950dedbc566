# SPDX-License-Identifier: Apache-2.0
"""Prints and counts results, and a line of progress. Tests run in parallel, so everything is printed by whole lines."""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runner import results
from runner.results import Result
from runner.settings import CI_ENDS, ROOT, Settings

PLAIN_SECONDS = 60.0  # between lines of progress that are not on a terminal
SLOWEST = 20


def excerpt(lines: Sequence[str]) -> list[str]:
    """A readable part of a long output. Catch2's durations of sections are in the whole output alone."""
    kept = [line[:400] for line in lines if not line.partition(" s: ")[0].replace(".", "", 1).isdigit()]
    return kept if len(kept) <= 250 else kept[:200] + ["…"] + kept[-30:]


def progress_line(elapsed: float, done: int, total: int, failed: int, running: Sequence[str]) -> str:
    took = f"{elapsed // 60:.0f} min {elapsed % 60:.0f} s"
    now = f"; now {', '.join(running)}" if running else ""
    return f"-- {took}: {done} of {total} done, {total - done} left, {failed} failed{now}"


def times(everything: Sequence[Result]) -> list[str]:
    """The slowest tests, and each level's time. Tests of a level may run in parallel, and guests have a clock of their
    own."""
    tests = []
    for result in everything:
        cases = [(case.seconds, f"{result.title}: {case.name}") for case in result.cases if case.seconds]
        tests += cases if len(cases) > 1 else [(result.seconds, result.title)]
    slowest = sorted((each for each in tests if each[0] >= 0.05), key=lambda each: (-each[0], each[1]))[:SLOWEST]
    levels: dict[str, float] = {}
    for result in everything:
        levels[result.level] = levels.get(result.level, 0.0) + result.seconds
    return [
        *(f"  {seconds:8.1f} s  {title[:108]}" for seconds, title in slowest),
        "by level: " + ", ".join(f"{level} {seconds:.0f} s" for level, seconds in levels.items()),
    ]


class Report:
    def __init__(self, settings: Settings, file: Path | None = None) -> None:
        self.settings = settings
        self.results: list[Result] = []
        self.total = self.done = 0
        self._file = file
        self._lock = threading.RLock()
        self._running: list[str] = []
        self._terminal = sys.stdout.isatty()
        self._colours = self._terminal and not os.environ.get("NO_COLOR")
        self._shown = time.monotonic()
        self._over = threading.Event()
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)

    # ---- Counts. ----

    @property
    def passed(self) -> int:
        return sum(result.passed for result in self.results)

    @property
    def failed(self) -> int:
        return sum(result.failed for result in self.results)

    @property
    def counts(self) -> str:
        skipped = sum(result.skipped for result in self.results)
        return f"{self.passed} passed, {self.failed} failed" + (f", {skipped} skipped" if skipped else "")

    def add(self, result: Result, text: str = "") -> None:
        if self.settings.ci == "true":
            result.refuse_skips()
        with self._lock:
            self.results.append(result)
            if self._file:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(result.line())
            if result.cached:
                self.say(f"{result.title}: unchanged since it passed, not run (--again runs it)")
            elif text:
                self.timed(text, result.seconds)

    def fail(self, level: str, text: str, selection: str = "") -> None:
        self.add(Result(text, level, selection, failed=1, failures=[text]))

    def add_file(self, path: Path, adjust: Callable[[Result], None]) -> bool:
        """Adds the results that another run has written, adjusted to this one; whether there are any."""
        added = list(results.read(path))
        for result in added:
            adjust(result)
            self.add(result)
        return bool(added)

    # ---- Lines. ----

    def say(self, text: str) -> None:
        with self._lock:
            if self._terminal:
                text = "\r\x1b[K" + text
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def heading(self, text: str) -> None:
        self.say(f"\x1b[1m== {text}\x1b[0m" if self._colours else f"== {text}")

    def timed(self, text: str, seconds: float) -> None:
        took = f"{seconds:3.0f} s"
        self.say(f"{text:<62} " + (f"\x1b[2m{took}\x1b[0m" if self._colours else took))

    def left_out(self, title: str) -> None:
        self.say(f"{title}: LEFT OUT: {CI_ENDS // 60} minutes of CI are over")

    def show(self, log: Path) -> str:
        """Prints a failed test's output, or a part of it; all of it stays with the logs. Returns its end."""
        self.settings.logs.mkdir(parents=True, exist_ok=True)
        kept = self.settings.logs / log.name
        shutil.copyfile(log, kept)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        where = kept.relative_to(ROOT) if kept.is_relative_to(ROOT) else kept
        self.say("\n".join([*excerpt(lines), f"(the whole output: {where})"]))
        return "\n".join(lines[-30:])

    # ---- Progress. ----

    @contextlib.contextmanager
    def running(self, title: str, *, counts: int = 0) -> Iterator[None]:
        with self._lock:
            self._running.append(title)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(title)
                self.done += counts

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            with self._lock:
                line = progress_line(self.settings.elapsed, self.done, self.total, self.failed, self._running)
                if self._terminal:
                    sys.stdout.write("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1])
                    sys.stdout.flush()
                elif time.monotonic() - self._shown >= PLAIN_SECONDS:
                    self._shown = time.monotonic()
                    self.say(line)

    @contextlib.contextmanager
    def progress(self, total: int) -> Iterator[None]:
        """Shows what is left while this is entered."""
        self.total, self._shown = total, time.monotonic()
        ticker = threading.Thread(target=self._tick)
        ticker.start()
        try:
            yield
        finally:
            self._over.set()
            ticker.join()

    def end(self) -> int:
        """Prints times, failures and, as the last line, the counts; returns the exit code."""
        slow = times(self.results)
        if len(slow) > 1:
            self.heading("slowest")
            self.say("\n".join(slow))
        if self.failed:
            self.heading("failed")
            self.say("\n".join(f"  {why}" for result in self.results for why in result.failures))
        self.say(f"{self.settings.elapsed // 60:.0f} min {self.settings.elapsed % 60:.0f} s")
        self.say(self.counts)
        return 0 if self.passed and not self.failed else 1
