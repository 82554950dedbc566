# SPDX-License-Identifier: Apache-2.0
"""The checks of level static, as a table; and those of them that are a few lines: whether scripts parse, pipes,
commits' subjects."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.settings import LIBRARY, ROOT, SANITIZED, SCRIPTS
from tree import files_of

# ---- Scripts. ----

INTERPRETERS = {".sh": re.compile(r"^#!.*sh( |$)"), ".py": re.compile(r"^#!.*python3( |$)")}


def first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\n")


def scripts(ending: str) -> list[Path]:
    """This tree's shell or Python files: those that end with .sh or .py, or whose first line names a shell or
    Python."""
    paths = [ROOT / path for path in files_of(ROOT) if path.startswith(("scripts/", ".ci/", "tests/", "bench/"))]
    first = INTERPRETERS[ending]
    return [path for path in paths if path.suffix == ending or not path.suffix and first.match(first_line(path))]


def parse_mistake(path: Path) -> str:
    """Why its Python or shell cannot parse a file; empty if it can."""
    first = first_line(path)
    if path.suffix == ".py" or first.startswith("#!") and first.endswith("python3"):
        try:
            ast.parse(path.read_text(encoding="utf-8"), str(path))
        except SyntaxError as error:
            return f"{path}:{error.lineno}: {error.msg}"
        return ""
    shells = {"#!/bin/sh": ["sh"], "#!/bin/busybox sh": ["busybox", "sh"]}
    shell = next((words for start, words in shells.items() if first.startswith(start)), ["bash"])
    return subprocess.run([*shell, "-n", str(path)], capture_output=True, text=True, check=False).stderr


def scripts_parse() -> Iterator[str]:
    for ending in INTERPRETERS:
        paths = scripts(ending)
        if not paths:
            yield f"there is no file {ending}"
        yield from filter(None, map(parse_mistake, paths))


END = "([^a-z_-]|$)"
# Programs that may end before their input does: grep that needs one match, head, and sed and awk that quit.
EARLY = (
    f"head{END}|grep +([^|]* )?(-[a-zA-Z]*[qm]|--quiet|--silent|--max-count)|"
    "sed +[^|]*[0-9$/;{] *q[0-9]*([^a-zA-Z0-9/]|$)|awk +[^|]*[^a-z]exit"
)
CUT_OFF = re.compile(r"(^|[^|])[|]&?[ \t]*([{(] *|if [^;]*; *then +|while [^;]*; *do +)?(" + EARLY + ")")


def cut_off_writers(lines: Iterable[str]) -> Iterator[int]:
    """Lines with a pipe into such a program. If its writer goes on, SIGPIPE ends the writer, which pipefail takes for a
    failure, sometimes (see prints in common.sh)."""
    before = ""
    for number, line in enumerate(lines, 1):
        if line.lstrip(" \t").startswith("#"):
            continue
        if CUT_OFF.search(before + line):
            yield number
        before = line if line.endswith("|") else ""


def writers_go_on() -> Iterator[str]:
    for path in scripts(".sh"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from (f"{path}:{number}: {lines[number - 1]}" for number in cut_off_writers(lines))


# ---- Commits. ----

# Older commits are not checked (a date without a time would mean the present hour of that day).
SUBJECTS_SINCE = "2026-11-26T09:00:00Z"
SUBJECT = re.compile(r"[a-zA-Z0-9_./-]+(, [a-zA-Z0-9_./-]+)*: [^ ]")


def subject_mistake(subject: str) -> str:
    if len(subject) > 72:
        return f"longer than 72 characters: {subject}"
    return "" if SUBJECT.match(subject) else f"begins with no area: {subject}"


def commit_subjects() -> Iterator[str]:
    """A tree without git has none."""
    log = subprocess.run(
        [
            "git",
            "-c",
            "safe.directory=*",
            "-C",
            str(ROOT),
            "log",
            "--no-merges",
            f"--since={SUBJECTS_SINCE}",
            "--format=%h %s",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if mistake := subject_mistake(subject):
            yield f"{commit}: {mistake}"


# ---- The table. ----

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Check:
    """Passes if all commands do, or if the function finds no mistake."""

    name: str
    title: str
    commands: Sequence[Command] = ()
    mistakes: Callable[[], Iterator[str]] | None = None
    built: bool = False  # needs the sanitized build


def python(name: str, *arguments: str | Path) -> Command:
    return (sys.executable, LIBRARY / name, *arguments)


# A script with deliberate mistakes tests the script that looks for them.
CHECKS = (
    Check("formatting", "formatting (clang-format-19)", [(SCRIPTS / "format", "--check")]),
    Check("includers", "one .cpp for each heavy header", [python("includers.py", SANITIZED)], built=True),
    Check("arrows", "includes follow the layer order", [python("arrows.py")]),
    Check("bpf_includes", "bpf/ includes what it uses", [python("bpf_includes.py")]),
    Check(
        "lengths",
        "helpers' lengths are bounded at the call",
        [python("bounded_lengths_test.py"), python("bounded_lengths.py", SANITIZED / "bpf/lb.o")],
        built=True,
    ),
    Check("figures", "sizes of functions and files", [python("figures.py")]),
    Check("scripts", "scripts parse", mistakes=scripts_parse),
    Check("pipes", "no writer of a pipe is cut off", mistakes=writers_go_on),
    Check("subjects", "subjects of commits", mistakes=commit_subjects),
    Check("workflows", "workflows run scripts that exist (actionlint)", [python("workflows.py")]),
    Check("licences", "licences of all files (reuse lint)", [python("licences.py")]),
    Check("references", "references are the program's", [python("references.py", SANITIZED / "sluice")], built=True),
    Check("documents", "documents: links, paths, options, spelling", [python("documents.py")]),
    Check("pictures", "pictures are what their texts say", [python("pictures.py")]),
    Check(
        "kernels",
        "kernels that are promised are booted",
        [python("promised_kernels_test.py"), python("promised_kernels.py")],
    ),
    Check("contract", "rows of the contract and their tests", [python("contract_test.py"), python("contract.py")]),
    Check("askers", "who asks for services' addresses stands in docs/threats.md", [python("askers.py")]),
    Check(
        "runner",
        "the runner's tests",
        [(sys.executable, "-m", "unittest", "discover", "-s", LIBRARY / "runner/tests", "-t", LIBRARY)],
    ),
)


def names() -> list[str]:
    return [check.name for check in CHECKS]


def named(name: str) -> Check:
    return next(check for check in CHECKS if check.name == name)
