# SPDX-License-Identifier: Apache-2.0
"""Runs one Catch2 program, scenario or fuzz target, unless it has passed before or there is no time left, and reports
its result."""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner import catch, process, scenarios
from runner.cache import Cache
from runner.report import Report
from runner.results import Result
from runner.settings import BUILD, ROOT, SANITIZED, Settings

# Features of newer kernels that every net test must do without: a second run leaves all of them unused.
OPTIONAL_FEATURES = "tcx,fib-source,fib-mark,ct-lookup,csum-ipv6,socket-destroy,skb-sums,xdp,tc-fastpath"


@dataclass
class Context:
    settings: Settings
    report: Report
    cache: Cache | None = None  # none: nothing is remembered
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def without_features(self) -> "Context":
        return Context(self.settings, self.report, self.cache, self.environment | {"SLUICE_WITHOUT": OPTIONAL_FEATURES})

    def log(self, title: str) -> Path:
        return self.settings.work / (title.replace(" ", "-").replace("/", "-") + ".log")

    def run(self, command: Sequence[str | Path], log: Path, **variables: str) -> process.Ended:
        with log.open("w", encoding="utf-8") as output:
            seconds, environment = self.settings.seconds_of_a_test, self.environment | variables
            return process.run(command, seconds, output, environment=environment)


def attempt(
    context: Context,
    result: Result,
    level: str,
    what: str,
    programs: Sequence[Path],
    named: bool,
    test: Callable[[Result], str],
) -> None:
    """Reports a result from the cache, or the one that `test` fills in; it returns the line to print. The key is
    computed from the files before the test, because they may change while it runs."""
    cache, settings = context.cache, context.settings
    key = cache.key(level, what, context.environment, programs) if cache else ""
    known = cache.passed(key) if cache and settings.uses_cache and not named else None
    if known is not None:
        result.passed, result.cached = known, True
        context.report.add(result)
    elif settings.too_late:
        context.report.left_out(result.title)
    else:
        text = test(result)
        if cache and result.is_clean:
            cache.remember(key, result.passed)
        context.report.add(result, text)


def limit(context: Context) -> str:
    return f"{process.LIMIT_CODE} is the limit of {context.settings.seconds_of_a_test} s"


def judge(context: Context, result: Result, ended: process.Ended, log: Path) -> None:
    output = context.report.show(log) if ended.code else ""
    result.judge(ended.code, f"exit code {ended.code} ({limit(context)})", output)


def catch_level(
    context: Context,
    level: str,
    directory: Path,
    title: str = "",
    tests: str = "",
    selection: str = "",
    named: bool = False,
) -> None:
    """Runs DIRECTORY/tests/test_LEVEL, and counts its cases, of which there must be at least one."""
    title = title or level
    program = directory / "tests" / f"test_{level}"
    result = Result(title, selection.partition(":")[0] or level, selection or level)
    log = context.log(title)
    xml = log.with_suffix(".xml")

    def test(result: Result) -> str:
        xml.unlink(missing_ok=True)
        words = ["--reporter", "compact", "--reporter", f"xml::out={xml}", "--durations", "yes"]
        ended = context.run([program, *([tests] if tests else []), *words], log)
        result.seconds = ended.seconds
        if ended.code:
            context.report.show(log)
        count = catch.counts(xml.read_text(encoding="utf-8", errors="replace")) if xml.exists() else None
        result.cases = catch.cases(xml)
        if count is None:
            result.fail(f"ended before its summary (exit code {ended.code}; {limit(context)})")
            result.cases = []
            return ""
        result.passed, result.skipped = count["successes"] + count["expectedFailures"], count["skips"]
        if not sum(count.values()):
            result.fail("no case ran")
        failed = [case.name for case in result.cases if case.outcome == "failed"]
        if count["failures"]:
            result.fail("see above" if not failed else f"{'; '.join(failed[:5])}: see above", count["failures"])
            if failed:
                result.selection = f"{result.level}:{catch.exactly(failed)}"
        # Catch2 exits with 4 when every test was skipped; a sanitizer's report at exit shows only in the exit code.
        elif ended.code not in (0, 4):
            result.fail(f"exit code {ended.code}")
        return f"{title}: {count['successes']} cases passed, {count['failures']} failed"

    if os.access(program, os.X_OK):
        attempt(context, result, level, f"{title} {tests}", [program], named, test)
    else:
        result.fail(f"{program} was not built")
        context.report.add(result)


def scenario(
    context: Context, level: str, name: str, title: str = "", selection: str = "", named: bool = False
) -> None:
    """Runs NAME.sh below tests/LEVEL as one test; exit code 77 is a skip."""
    title = f"{title or level}/{name}.sh"
    path = scenarios.find(level, name)
    assert path, title
    selection = selection or f"{level}/{name}"
    log = context.log(title)

    def test(result: Result) -> str:
        ended = context.run(["bash", path], log, SLUICE=str(BUILD / "sluice"))
        result.seconds = ended.seconds
        if ended.code == 77:
            result.skipped = 1
        else:
            judge(context, result, ended, log)
        return f"{title}: exit code {ended.code}"

    attempt(context, Result(title, selection.partition("/")[0], selection), level, title, [], named, test)


def fuzz_target(context: Context, name: str, inputs: int, named: bool = False) -> None:
    """Runs its corpus, and inputs derived from that, as one test. The short form derives the same ones each time. An
    input that fails stays with the logs, and should be added to the corpus."""
    settings, title = context.settings, f"fuzz_{name}"
    program = SANITIZED / "tests" / title
    count = inputs * 25 if settings.long else inputs
    seed = settings.seed or (str(random.randrange(1, 32768)) if settings.long else "1")
    log, derived = context.log(title), settings.work / title

    def test(result: Result) -> str:
        for directory in (derived, settings.logs):
            directory.mkdir(parents=True, exist_ok=True)
        words = f"-verbosity=0 -runs={count} -seed={seed} -max_len=4096 -len_control=0 -timeout=10".split()
        words.append(f"-artifact_prefix={settings.logs}/{title}-")
        ended = context.run([program, *words, derived, ROOT / "tests/corpus/fuzz" / name], log)
        result.seconds = ended.seconds
        judge(context, result, ended, log)
        return f"{title}: {count} inputs of seed {seed}, exit code {ended.code}"

    attempt(context, Result(title, "fuzz", f"fuzz/{name}"), "fuzz", f"{name} {inputs}", [program], named, test)
