# SPDX-License-Identifier: Apache-2.0
"""Level debian13: builds with Debian 13's compiler and libraries in the root of scripts/lib/debian13, and runs the
tests there that only compute and those that meet the distribution's tools. main runs in the root, on this tree and with
this machine's ccache."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from runner import builds, execute, results
from runner.cache import Cache
from runner.execute import Context
from runner.report import Report
from runner.results import Result
from runner.settings import BUILD, CACHE, LIBRARY, ROOT, Settings

# Scenarios that run programs of the distribution beside the agent: curl, ncat, ping, traceroute, iptables, nft, ip.
SCENARIOS = ("tools", "rule_writers")
SCENARIOS_LONG = (*SCENARIOS, "cleanup", "beside_sidecar", "commands", "flushed_rules", "switch_over")

IN_ROOT = 'set -euo pipefail; source "$1/common.sh"; source "$1/roots.sh"; shift; in_root "$@"'
# As everybody builds with --long, otherwise quickly.
CONFIGURE = (
    "if [[ -n ${SLUICE_LONG:-} ]]; then configure_plain\n"
    'else quietly "configuring (Debian 13)" configure "$PLAIN_DIR" gcc g++ "${QUICK[@]}"; fi &&\n'
    'make "$PLAIN_DIR" "building on Debian 13" sluice test_unit test_golden'
)


def level(context: Context) -> None:
    report, root = context.report, context.environment.get("DEBIAN13", "")
    if not root:
        report.add(
            Result("debian13: there is no Debian 13 here, and none could be made", "debian13", "debian13", skipped=1)
        )
        return
    if root == "here":
        report.say("debian13: this machine has it; the other levels are these tests")
        return
    file = BUILD / "debian13" / results.FILE
    file.unlink(missing_ok=True)
    cache = Path(context.environment.get("CCACHE_DIR") or CACHE.parent / "ccache")
    shared = {ROOT: f"{root}{ROOT}", BUILD: f"{root}{BUILD}", cache: f"{root}/ccache"}
    for directory in (cache, *map(Path, shared.values())):
        directory.mkdir(parents=True, exist_ok=True)
    mounts = " && ".join(f"mount --bind '{own}' '{there}'" for own, there in shared.items())
    variables = [f"{name}={context.environment.get(name, '')}" for name in ("CI", "SLUICE_LONG", "NETFILTER_TOOLS")]
    variables += [f"SLUICE_BUILD_ROOT={BUILD}/debian13/build", "CCACHE_DIR=/ccache", "PYTHONDONTWRITEBYTECODE=1"]
    code = subprocess.run(
        [
            "bash",
            "-c",
            IN_ROOT,
            "debian13",
            LIBRARY,
            root,
            mounts,
            *variables,
            "--",
            "/usr/bin/python3",
            LIBRARY / "runner",
            "debian13",
            file,
        ],
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode

    def of_level(result: Result) -> None:
        result.level = result.selection = "debian13"

    if not report.add_file(file, of_level) or code:
        report.fail("debian13", f"debian13 ended before its last test (exit code {code})", "debian13")


def main(arguments: Sequence[str]) -> int:
    settings = Settings.of(os.environ)
    report = Report(settings, Path(arguments[0]))
    context = Context(settings, report, Cache())
    if subprocess.run(builds.function("eval", CONFIGURE), check=False).returncode:
        report.fail("debian13", "the build on Debian 13")
        return 0
    report.add(Result("the build on Debian 13", "debian13", "", passed=1))
    for each in ("unit", "golden"):
        execute.catch_level(context, each, BUILD, f"{each} on Debian 13")
    for name in SCENARIOS_LONG if settings.long else SCENARIOS:
        execute.scenario(context, "net", name, "debian13/net")
    report.say(f"Debian 13: {report.counts} in {settings.elapsed:.0f} s")
    return 0
