# SPDX-License-Identifier: Apache-2.0
"""What to run: turns the arguments of scripts/test into items, each of which is one test program, scenario, check or
guest.

The tracks run in parallel, because most tests wait for packets and timers and leave the cores idle. The checks of level
static go first, and items that are named one by one last; each after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from runner import results, scenarios, static
from runner.settings import LOGS, ROOT

LEVELS = ("static", "unit", "golden", "fuzz", "prog", "net", "kernels", "e2e", "package", "cluster", "debian13")

# The fuzz targets, and the number of inputs for each: a few seconds each, with sanitizers and without optimization.
FUZZ_TARGETS = {"decode": 10000, "framing": 10000, "http_response": 10000, "manifests": 1000, "packet": 300000}

# Scenarios that test something else without the optional features, minus those that the short form leaves out. Other
# scenarios start such agents themselves (disruption), need a feature, or would not notice.
WITHOUT_TOO = ("beside_agent", "commands", "growing", "healing", "many", "other_layout", "pod_devices", "tools")
WITHOUT_TOO_LONG = (*WITHOUT_TOO, "beside_sidecar", "damaged")

# Tests that the short form leaves out.
LONG_ONLY = (
    "net/real_programs",
    "net/other_binary",
    "e2e/newest_release",
    "cluster/newest_release",
    "cluster/dockerfile",
    "package/arm64",
    "package/release",
    "package/two_builds",
)

# Tests that take a quarter of an hour and more in their long form: each lane runs in parallel with everything else.
LANES = (("net/each_call", "e2e/differential"), ("net/disruption", "e2e/load", "e2e/api_away"))

# The builds in the background, as items. The long form has built for arm64 before, and runs it.
TIDY, ARM64 = "static/clang-tidy", "package/compiles_arm64"


class Track(Enum):
    CHECKS = "static checks"
    CASES = "cases"
    SCENARIOS = "scenarios"
    E2E = "e2e"
    GUESTS = "guests"
    # Work that only computes and has no timers: it uses the CPU time that the tests leave.
    BACKGROUND = "background"
    LANE_0 = "the first lane"
    LANE_1 = "the second lane"
    NAMED = "named"


# The track of a level's scenarios, and of other items that are the whole level.
TRACKS = {
    "static": Track.CHECKS,
    "unit": Track.SCENARIOS,
    "golden": Track.SCENARIOS,
    "fuzz": Track.SCENARIOS,
    "prog": Track.CASES,
    "net": Track.SCENARIOS,
    "without": Track.SCENARIOS,
    "kernels": Track.GUESTS,
    "e2e": Track.E2E,
    "package": Track.CASES,
    "cluster": Track.SCENARIOS,
    "debian13": Track.BACKGROUND,
}


class Unknown(Exception):
    """An argument that selects nothing; says what to do."""


@dataclass(frozen=True)
class Item:
    level: str  # of LEVELS; or `without`: net without the optional features
    name: str = ""  # a check, target or scenario; empty: the level's Catch2 cases, or the level
    tests: str = ""  # a selection of Catch2 cases
    track: Track = Track.NAMED
    named: bool = False  # runs even if it has passed before

    @property
    def selection(self) -> str:
        return f"{self.level}/{self.name}" if self.name else f"{self.level}:{self.tests}" if self.tests else self.level


@dataclass
class Options:
    asked: list[str] = field(default_factory=list)
    long: bool = False
    again: bool = False
    list: bool = False
    shard: tuple[int, int] = (1, 1)

    @classmethod
    def of(cls, arguments: Sequence[str], environment_is_long: bool = False, logs: Path = LOGS) -> "Options":
        options, rest, failed = cls(long=environment_is_long), list(arguments), False
        while rest:
            match rest.pop(0):
                case "--long":
                    options.long = True
                case "--again":
                    options.again = True
                case "--list":
                    options.list = True
                case "--failed":
                    failed = True
                case "--shard":
                    options.shard = parse_shard(rest.pop(0) if rest else "")
                case argument:
                    check(argument)
                    options.asked.append(argument)
        if failed:
            if options.asked:
                raise Unknown("takes no selections with --failed.")
            options.asked = failed_last(logs)
        elif not options.asked:
            # What a build from nothing by another compiler adds to a run that has a time limit was not measured on an
            # idle machine.
            options.asked = list(LEVELS if options.long else LEVELS[:-1])
        return options


def parse_shard(text: str) -> tuple[int, int]:
    number, _, total = text.partition("/")
    if number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total):
        return int(number), int(total)
    raise Unknown(f"takes --shard N/M with N from 1 to M, not '{text}'.")


def failed_last(logs: Path) -> list[str]:
    """What failed in the last run, as selections."""
    failed = [result.selection for result in results.read(logs / results.FILE) if result.failed and result.selection]
    return list(dict.fromkeys(failed))


def check(selection: str) -> None:
    """Raises Unknown unless there is such a level, and a test of that name in it."""
    if selection in (*LEVELS, "without", TIDY, ARM64):
        return
    level, name, tests = split(selection)
    if level not in (*LEVELS, "without"):
        raise Unknown(f"does not know '{selection}'; see scripts/test --help.")
    if tests and level in ("unit", "golden", "prog", "net", "without"):
        return
    if level == "kernels" and name.startswith(("prog:", "net:")):
        return
    if level == "kernels" and name.startswith("net/"):
        return check(name)
    if not name or level in ("unit", "golden", "prog", "debian13"):
        raise Unknown(f"cannot select '{selection}'; see scripts/test --help.")
    if level == "fuzz":
        if name not in FUZZ_TARGETS:
            raise Unknown(f"finds no fuzz target '{name}'.")
    elif level == "static":
        if name not in static.names():
            raise Unknown(f"finds no check '{name}'; scripts/test --list static prints them.")
    elif not scenarios.find("net" if level == "without" else level, name):
        raise Unknown(f"finds no scenario {selection}.")


def split(selection: str) -> tuple[str, str, str]:
    """Level, name and Catch2's tests of LEVEL/NAME or LEVEL:TESTS; of kernels all the rest is the name."""
    level = selection.split(":")[0].split("/")[0]
    rest = selection[len(level) + 1 :]
    if level == "kernels" or selection[len(level) : len(level) + 1] == "/":
        return level, rest, ""
    return level, "", rest


def named(selection: str) -> Item:
    level, name, tests = split(selection)
    track = Track.NAMED
    if level in ("kernels", "static"):
        track = TRACKS[level]
    if selection in (TIDY, ARM64):
        track = Track.BACKGROUND
    # On other kernels also by colon: kernels/net:TESTS.
    return Item(level, name, tests, track, named=True)


def whole(level: str, options: Options, lanes: bool, tree: Path) -> list[Item]:
    """The items of a level, in the order in which its track runs them."""
    track = TRACKS[level]
    if level == "static":
        return [
            *(Item(level, name, track=track) for name in static.names()),
            Item("static", "clang-tidy", track=Track.BACKGROUND),
        ]
    if level == "fuzz":
        return [Item(level, name, track=track) for name in FUZZ_TARGETS]
    if level == "without":
        names = WITHOUT_TOO_LONG if options.long else WITHOUT_TOO
        return [Item(level, track=Track.CASES), *(Item(level, name, track=track) for name in names)]
    if level in ("unit", "golden", "prog", "debian13"):
        return [Item(level, track=track)]
    every = [path.stem for path in scenarios.files(level, tree)]
    if level == "kernels":
        own = [name for name in every if scenarios.guest_settings(name, tree)] if options.long else []
        return [Item(level, track=track), *(Item(level, name, track=track) for name in own)]
    items = [
        Item(level, name, track=track_of(f"{level}/{name}", track, lanes))
        for name in every
        if options.long or f"{level}/{name}" not in LONG_ONLY
    ]
    if level == "net":
        return [Item(level, track=Track.CASES), *items, *whole("without", options, lanes, tree)]
    if level == "package" and not options.long:
        items.append(Item(level, "compiles_arm64", track=Track.BACKGROUND))
    return items


def track_of(selection: str, track: Track, lanes: bool) -> Track:
    found = [Track.LANE_0, Track.LANE_1][: 2 if lanes else 0]
    return next((lane for lane, names in zip(found, LANES) if selection in names), track)


def plan(options: Options, lanes: bool = False, tree: Path = ROOT) -> list[Item]:
    """The items of this run; of its shard, if there are several: each item is in one of them."""
    items: list[Item] = []
    # The background builds on Debian 13 first, because its tests need that.
    for level in ("debian13", *LEVELS[:-1], "without"):
        if level in options.asked and not (level == "without" and "net" in options.asked):
            items += whole(level, options, lanes, tree)
    for each in options.asked:
        # A level of guests goes through what can be named of it.
        if each not in (*LEVELS, "without") and not (each.startswith("kernels/") and "kernels" in options.asked):
            items.append(named(each))
    number, total = options.shard
    return items[number - 1 :: total]
