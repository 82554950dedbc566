# SPDX-License-Identifier: Apache-2.0
"""Builds by the functions of scripts/lib/build.sh, which scripts/build has too."""

import subprocess
from collections.abc import Sequence

from runner import static
from runner.execute import Context
from runner.process import LIMIT_CODE, run
from runner.results import Result
from runner.selection import ARM64, TIDY, Item
from runner.settings import CI_ENDS, LIBRARY

SHELL = 'set -euo pipefail; source "$1/common.sh"; source "$1/build.sh"; "${@:2}"'
PLAIN = ("prog", "net", "without", "kernels", "e2e", "package", "cluster")
SANITIZED = ("unit", "golden", "fuzz")


def function(*words: str) -> list[str]:
    """A command that calls a function of build.sh."""
    return ["bash", "-c", SHELL, "build", str(LIBRARY), *words]


def targets(asked: Sequence[str], long: bool) -> tuple[str, str]:
    """Patterns of what is built by g++ and, sanitized, by clang: each file by one of them; clang's warnings for the
    other files come from clang-tidy. --long builds everything twice."""
    plain = "." if long else r"^(sluice|bench/.*|tests/test_(prog|net))$"
    sanitized = "." if long else r"^(sluice|tests/test_unit|tests/test_golden|tests/fuzz_.*|.*_skeleton)$"
    if any(":" in each or "/" in each for each in asked):
        plain = "^(sluice|tests/test_(prog|net))$"
    if len(asked) == 1 and asked[0] in ("e2e", "package", "cluster"):
        plain = "^sluice$"
    if list(asked) == ["fuzz"]:
        sanitized = "^tests/fuzz_"
    return plain, sanitized


def needs_sanitized(item: Item) -> bool:
    return item.level in SANITIZED or item.selection == TIDY or item.level == "static" and static.named(item.name).built


def build(context: Context, items: Sequence[Item], asked: Sequence[str]) -> bool:
    """Builds what the items need, quietly unless something fails; whether that succeeded."""
    plain, sanitized = targets(asked, context.settings.long)
    wanted = []
    if any(item.level in PLAIN and item.selection != ARM64 for item in items):
        wanted.append(("g++", "build_plain_matching", plain))
    if any(needs_sanitized(item) for item in items):
        wanted.append(("clang-19", "build_sanitized_matching", sanitized))
    for title, *words in wanted:
        done = subprocess.run(function(*words), stdin=subprocess.DEVNULL, env=context.environment, check=False)
        result = Result(title, "build", "")
        result.judge(done.returncode, f"exit code {done.returncode}")
        context.report.add(result)
    return context.report.failed == 0


def builds_for_arm64(context: Context) -> None:
    """Until CI's time is over."""
    settings = context.settings
    log = settings.work / "arm64.log"
    seconds = CI_ENDS - settings.elapsed if settings.limited else settings.seconds_of_a_test * 4
    with log.open("w", encoding="utf-8") as output:
        ended = run(function("compiles_foreign", "arm64", "sluice"), seconds, output, environment=context.environment)
    if settings.limited and ended.code == LIMIT_CODE:
        context.report.left_out("building for arm64")
        return
    text = log.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    context.report.say(text)
    result = Result("g++ for arm64", "package", ARM64, seconds=ended.seconds)
    result.judge(ended.code, f"exit code {ended.code}", text)
    context.report.add(result)
