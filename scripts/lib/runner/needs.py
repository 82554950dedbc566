# SPDX-License-Identifier: Apache-2.0
"""What is prepared before the sandbox, which has no network: partners, kernels, packages; and which items need it."""

import fnmatch
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runner.selection import ARM64, Item
from runner.settings import SCRIPTS


@dataclass(frozen=True)
class Need:
    variable: str  # of the environment, for what the command prints; empty: that is for the user
    command: str  # below scripts/
    items: str  # patterns of selections


# In the order of preparation. Of several rows with one variable the first one that is needed counts.
NEEDS = (
    Need("ACTIONLINT", "lib/actionlint", "static/workflows"),
    Need("PARTNERS", "lib/partners --nodes", "cluster/*"),
    Need("PARTNERS", "lib/partners", "e2e/* package/*"),
    Need("FIELDS", "lib/kube-proxy-fields", "e2e/*"),
    Need("MONITORING", "lib/monitoring", "e2e/* cluster/*"),
    Need("HELM", "lib/helm", "e2e/* package/* cluster/*"),
    Need("CONTAINERD", "lib/containerd", "package/* cluster/*"),
    # The short form builds for arm64 and runs nothing of it.
    Need("", "setup --arm64", ARM64),
    Need("ARM64_SYSROOT", "lib/sysroot arm64", ARM64),
    Need("", "setup --arm64-tests", "package/arm64"),
    Need("", "build --arch arm64 sluice tests/test_unit tests/test_golden tests/test_prog", "package/arm64"),
    Need("ARM64_GUEST", "lib/sysroot arm64 guest", "package/arm64"),
    Need("ARM64_KERNELS", "lib/kernels arm64", "package/arm64"),
    Need("REAL_PROGRAMS", "lib/real-programs", "net/real_programs"),
    Need("BIRD", "lib/bird", "net/bird"),
    Need("OLDER_AGENTS", "lib/older-agents", "net/other_binary"),
    Need("NEWEST_PARTNERS", "lib/partners --newest --nodes", "cluster/newest_release"),
    Need("NEWEST_PARTNERS", "lib/partners --newest", "e2e/newest_release"),
    Need("DOCKERFILE_IMAGE", "lib/dockerfile-image", "cluster/dockerfile"),
    Need("NETFILTER_TOOLS", "lib/netfilter-tools", "net/rule_writers e2e/* cluster/* debian13"),
    Need("DEBIAN13", "lib/debian13", "debian13"),
    Need("KERNELS", "lib/kernels", "kernels kernels/*"),
)


def needed(items: Sequence[Item]) -> Iterator[Need]:
    selections = {item.selection for item in items}
    given: set[str] = set()
    for need in NEEDS:
        wanted = any(fnmatch.filter(selections, pattern) for pattern in need.items.split())
        if wanted and need.variable not in given:
            given |= {need.variable} - {""}
            yield need


def prepare(need: Need, environment: dict[str, str]) -> int:
    """Runs the command, and sets the variable; returns the exit code."""
    script, *words = need.command.split()
    output = subprocess.PIPE if need.variable else None
    done = subprocess.run([SCRIPTS / script, *words], stdout=output, env=environment, text=True, check=False)
    if need.variable:
        environment[need.variable] = done.stdout.rstrip("\n")
    return done.returncode
