# SPDX-License-Identifier: Apache-2.0
"""scripts/test: reads the arguments, prepares what the selected items need, and continues in a sandbox."""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from runner import needs
from runner.selection import Options, Unknown, plan
from runner.settings import LIBRARY, RUNNER

USAGE = """\
usage: scripts/test [OPTION]... [LEVEL | LEVEL/NAME | LEVEL:TESTS]...

LEVEL is one of
  static   formatting, clang-tidy, includes, scripts, documents
  unit     the pure parts, with AddressSanitizer and UBSan
  golden   objects in, map contents out, with AddressSanitizer and UBSan
  fuzz     decoder, framing, manifests, HTTP answers and packet parser: a corpus, and inputs made
           from it (libFuzzer)
  prog     the programs by BPF_PROG_TEST_RUN (root)
  net      real sockets and real packets between network namespaces (root); also without optional
           features of the kernel, which `without` selects alone
  kernels  programs, packet tables and scenarios (tests/kernels) on Debian's 6.1, 6.12 and newest
           kernels in virtual machines (root); asks Debian's archives for them once a day
  e2e      the agent behind a real API server, beside a real kube-proxy (root); builds those once,
           which takes minutes, unless SLUICE_PARTNERS or KUBEBUILDER_ASSETS name a directory that
           holds them
  package  what scripts/package and scripts/release make: chart, Debian package, image; made twice,
           installed, run (root)
  debian13 the build, unit, golden and the scenarios that meet the distribution's tools, on Debian
           13's packages (root); makes a Debian 13 once a week
  cluster  manifests and chart as they are, on real kubelets and containerd in namespaces (root);
           builds as e2e does
All of them without LEVEL, but debian13 only with --long. One scenario is, say, net/growing,
e2e/load, kernels/vlan or fuzz/packet, one check static/documents; Catch2's cases are selected as
Catch2 does: "net:REL-19*". On the other kernels: kernels/net/growing, "kernels/net:REL-19*".

--long       repeats races and random tests for minutes instead of seconds, and goes through the
             longest of them beside the rest: two hours and more on two cores
--again      also runs tests that have passed before and have not changed since (CI always does)
--failed     runs what failed in the last run
--shard N/M  runs the N-th of M parts, which together are all
--list       prints what would run

NAME=VALUE of the environment: CI=true makes a skipped test a failure; SLUICE_KERNELS="6.1 unstable"
names the kernels of the level kernels (6.1, 6.12, backports, unstable, realtime); SLUICE_SCENARIOS
names the scenarios that cluster/newest_release runs on the newest Kubernetes release (default: all
with --long, kubeadm without). Results are in build/logs: junit.xml, and the outputs of what failed.
"""
SANDBOX = 'set -euo pipefail; source "$1/common.sh"; source "$1/sandbox.sh"; shift; sandbox "$@"'
signals: list[int] = []


def die(text: str) -> int:
    red, plain = ("\x1b[31m", "\x1b[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    print(f"{red}test: {text}{plain}", file=sys.stderr)
    return 1


def note(number: int, _: FrameType | None) -> None:
    """A step of the preparation ends first, as with a shell: apt must not be cut off."""
    signals.append(number)


def main(arguments: Sequence[str]) -> int:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    if {"-h", "--help"} & set(arguments):
        print(USAGE, end="")
        return 0
    try:
        options = Options.of(arguments, bool(environment.get("SLUICE_LONG")))
    except Unknown as error:
        return die(str(error))
    if options.long and "--long" in arguments:
        environment |= {"SLUICE_LONG": "1", "SLUICE_LANES": "1"}
    if options.again:
        environment["SLUICE_AGAIN"] = "1"
    items = plan(options, bool(environment.get("SLUICE_LANES")))
    if options.list:
        print("".join(f"{item.selection}\n" for item in items), end="")
        return 0
    if not items:
        print("there is nothing to run\n0 passed, 0 failed")
        return 0
    if os.geteuid() != 0:
        return die("must run as root; use sudo, or a root shell.")
    for need in (needs.Need("", "setup", ""), *needs.needed(items)):
        code = 128 + signals[0] if signals else needs.prepare(need, environment)
        if code:
            return code
    sys.stdout.flush()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    if signals:
        return 128 + signals[0]
    os.execvpe(
        "bash", ["bash", "-c", SANDBOX, "scripts/test", str(LIBRARY), *RUNNER, "inside", *arguments], environment
    )
