# SPDX-License-Identifier: Apache-2.0
"""The result of a test program, a scenario or a check, and a file of results, one JSON object a line: guests and other
roots write one for the runner, and the runner writes one for --failed."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = "results.jsonl"


@dataclass
class Case:
    name: str
    outcome: str = "passed"  # or failed, skipped
    message: str = ""
    seconds: float = 0.0


@dataclass
class Result:
    title: str
    level: str
    selection: str  # for scripts/test, to run this, or what failed of it, again
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    cached: bool = False

    @property
    def is_clean(self) -> bool:
        return self.passed > 0 and self.failed == 0 and self.skipped == 0

    def fail(self, why: str, count: int = 1) -> None:
        self.failed += count
        self.failures.append(f"{self.title}: {why}")

    def judge(self, code: int, why: str, output: str = "") -> None:
        """One test, by an exit code; the end of its output is for JUnit."""
        if code:
            self.fail(why)
            self.cases = [Case(self.title, "failed", f"{why}\n{output}", self.seconds)]
        else:
            self.passed = 1

    def refuse_skips(self) -> None:
        if self.skipped:
            self.fail("skipped, which CI does not accept", self.skipped)
            self.skipped = 0
        for case in self.cases:
            if case.outcome == "skipped":
                case.outcome = "failed"

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def read(path: Path) -> Iterator[Result]:
    """The results in a file, if there is one; a last line that was cut off is none."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            fields = json.loads(line)
        except json.JSONDecodeError:
            return
        cases = [Case(**case) for case in fields.pop("cases")]
        yield Result(**fields, cases=cases)
