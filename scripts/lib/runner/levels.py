# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the items that the arguments of scripts/test select, inside its sandbox: by tracks in parallel;
prints the count."""

import os
import signal
import threading
import time
import traceback
from collections.abc import Sequence

from runner import builds, debian13, execute, junit, process, results, static, verifier
from runner.cache import Cache
from runner.execute import Context
from runner.guests import NICE, Guests
from runner.report import Report
from runner.results import Result
from runner.selection import ARM64, FUZZ_TARGETS, TIDY, Item, Options, Track, plan
from runner.settings import BUILD, CACHE, CI_ENDS, ROOT, SANITIZED, Settings

# Emulated processors compute all the time, and their clocks wait for them: tests with timers of this machine go first.
NICENESS = {Track.GUESTS: NICE, Track.BACKGROUND: 19}
PARALLEL = [track for track in Track if track not in (Track.CHECKS, Track.NAMED)]


def check(context: Context, found: static.Check) -> None:
    """One scripted test, quiet when it passes."""
    log = context.log(found.name)
    result = Result(found.title, "static", f"static/{found.name}")
    started = time.monotonic()
    log.write_text("\n".join(found.mistakes()) if found.mistakes else "")
    code = 1 if log.stat().st_size else 0
    for command in found.commands:
        code = code or context.run(command, log).code
    result.seconds = time.monotonic() - started
    output = context.report.show(log) if code else ""
    result.judge(code, f"failed (exit code {code}), output above", output)
    context.report.add(result, result.failures[0] if code else result.title)


def clang_tidy(context: Context) -> None:
    """In CI until its time is over: within two and ten minutes."""
    left = min(600, max(120, int(CI_ENDS - context.settings.elapsed)))
    if context.settings.ci:
        context.environment.setdefault("SLUICE_TIDY_SECONDS", str(left))
    jobs = str(len(os.sched_getaffinity(0)))
    command = static.python("tidy.py", SANITIZED, BUILD, CACHE / "tidy", jobs)
    check(context, static.Check("clang-tidy", "clang-tidy-19", [command]))


def run_item(context: Context, item: Item) -> None:
    """Any item but those of level kernels, whose guests share a boot."""
    if item.selection == TIDY:
        clang_tidy(context)
    elif item.selection == ARM64:
        builds.builds_for_arm64(context)
    elif item.level == "static":
        check(context, static.named(item.name))
    elif item.level == "fuzz":
        execute.fuzz_target(context, item.name, FUZZ_TARGETS[item.name], item.named)
    elif item.level == "debian13":
        debian13.level(context)
    elif item.level == "without":
        context = context.without_features()
        if item.name:
            execute.scenario(context, "net", item.name, "net without", item.selection, item.named)
        else:
            execute.catch_level(
                context, "net", BUILD, "net without", item.tests or "~[features]", item.selection, item.named
            )
    elif item.name:
        execute.scenario(context, item.level, item.name, named=item.named)
    else:
        directory = SANITIZED if item.level in builds.SANITIZED else BUILD
        execute.catch_level(
            context, item.level, directory, tests=item.tests, selection=item.selection, named=item.named
        )
        if item.selection == "prog" and (log := context.log("prog")).exists():
            context.report.say("\n".join(verifier.instructions(log)))


def run_track(context: Context, track: Track, items: Sequence[Item]) -> None:
    report = context.report
    try:
        if track in NICENESS:
            process.lower_priority(NICENESS[track])
        if track == Track.GUESTS:
            with report.running("kernels", counts=len(items)):
                Guests(context).level(items)
            return
        for item in items:
            with report.running(item.selection, counts=1):
                run_item(context, item)
    except Exception:
        report.say(traceback.format_exc())
        report.fail("runner", f"the track of {track.value} ended before its last test")


def run(context: Context, items: Sequence[Item]) -> None:
    def of(track: Track) -> list[Item]:
        return [item for item in items if item.track == track]

    context.report.heading("tests")
    threads = [threading.Thread(target=run_track, args=(context, track, of(track))) for track in PARALLEL if of(track)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run_track(context, Track.NAMED, of(Track.NAMED))


def cannot_run(report: Report) -> None:
    """Lists the tests that none of our machines can run."""
    lines = (ROOT / "tests/CANNOT_RUN").read_text(encoding="utf-8").splitlines()
    report.heading("not run anywhere here (tests/CANNOT_RUN)")
    report.say("\n".join(f"  {line}" for line in lines if not line.startswith("#")))


def main(arguments: Sequence[str]) -> int:
    # An interrupt ends the sandbox from outside.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings = Settings.of(os.environ)
    options = Options.of(arguments, settings.long)
    items = plan(options, settings.lanes)
    report = Report(settings, settings.logs / results.FILE)
    context = Context(settings, report, Cache())
    context.environment |= {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "ASAN_SYMBOLIZER_PATH": "/usr/bin/llvm-symbolizer-19",
    }
    report.heading("build")
    if not builds.build(context, items, options.asked):
        report.say("runs no tests, because there are only binaries of an earlier build.")
        return 1
    with report.progress(len(items)):
        checks = [item for item in items if item.track == Track.CHECKS]
        if checks:
            report.heading("static checks")
            run_track(context, Track.CHECKS, checks)
        run(context, items)
    cannot_run(report)
    junit.write(settings.logs / "junit.xml", report.results)
    return report.end()
