# SPDX-License-Identifier: Apache-2.0
"""Checks the workflows in .github: every step is a script of this tree (or the one line that installs git), with levels and options that it
has; every level runs on a change and in the long form, and every kernel of scripts/lib/kernels in both; actionlint, whose path is in
ACTIONLINT, finds nothing.

usage: workflows.py [--print]     --print: each job's commands, with its container and environment, as they run by hand"""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# A container of Debian has no git, without which actions/checkout fetches no history.
INSTALLS_GIT = "apt-get update && apt-get install -y --no-install-recommends git ca-certificates"


def words_of(name, path):
    """The words of a bash array."""
    return re.findall(r'[^\s"]+', re.search(rf"^{name}=\((.*?)\)$", (ROOT / path).read_text(), re.M | re.S)[1])


def matrices(job):
    """Each combination of the job's matrix."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    for values in itertools.product(*matrix.values()):
        yield dict(zip(matrix, values))
    yield from included


def filled(text, values):
    return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda found: str(values[found[1]]), str(text))


def runs():
    """(workflow, title, image, environment, command) of every step that runs a command."""
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for values in matrices(job):
                variables = {name: filled(value, values) for name, value in job.get("env", {}).items()}
                image = f"{job['runs-on']}, {filled(job['container']['image'], values)}"
                for step in job["steps"]:
                    for line in str(step.get("run", "")).splitlines():
                        yield path.name, filled(job["name"], values), image, variables, filled(line, values)


def wrong_command(command):
    if command == INSTALLS_GIT:
        return ""
    script, *words = command.split()
    if not re.fullmatch(r"scripts/\w+", script) or not os.access(ROOT / script, os.X_OK):
        return f"'{command}' is no script of this tree"
    if script == "scripts/test":
        levels = words_of("LEVELS", "scripts/test")
        for word in words:
            if word != "--long" and re.split("[/:]", word)[0] not in levels:
                return f"'{command}': there is no level {word}"
    return ""


def left_out(found):
    """Levels that no job runs, and kernels."""
    tested = {name: [command.split()[1:] for workflow, _, _, _, command in found if workflow == name and command.startswith("scripts/test ")]
              for name in ("ci.yml", "nightly.yml")}
    for name, without in (("ci.yml", {"debian13"}), ("nightly.yml", {"static"})):
        for level in words_of("LEVELS", "scripts/test"):
            if level not in without and not any(level in words for words in tested[name]):
                yield f"{name} runs no level {level}"
    kernels = words_of("LINES", "scripts/lib/kernels") + re.findall(r'^\t"(\w+)=', (ROOT / "scripts/lib/kernels").read_text(), re.M)
    for name in tested:
        there = {variables["SLUICE_KERNELS"] for workflow, _, _, variables, _ in found if workflow == name and "SLUICE_KERNELS" in variables}
        if there != set(kernels):
            yield f"{name} runs the kernels {' '.join(sorted(there))}, and scripts/lib/kernels has {' '.join(kernels)}"


def main():
    found = list(runs())
    if sys.argv[1:] == ["--print"]:
        for workflow, title, image, variables, command in found:
            print(f"{workflow}: {title} ({image}): {' '.join([*(f'{name}={value}' for name, value in variables.items()), command])}")
        return 0
    wrong = [f"{workflow}: {title}: {what}" for workflow, title, _, _, command in found if (what := wrong_command(command))]
    wrong += left_out(found)
    if os.environ.get("ACTIONLINT"):
        done = subprocess.run([os.environ["ACTIONLINT"], "-shellcheck=", "-pyflakes=", "-oneline", *sorted((ROOT / ".github/workflows").glob("*.yml"))],
                              capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            wrong.append(done.stdout + done.stderr)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
