# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of level `kernels`, in a guest of scripts/lib/vm: NAME [SELECTION...], where NAME is the kernel's
(6.1, 7.3.4) and a selection is LEVEL:TESTS (Catch2's) or LEVEL/SCENARIO, of prog, net or kernels. Without selections:
the tests of the short or the long form. Writes results, whole outputs and the verifier's counts to /run/results."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from runner import execute, results, scenarios, verifier
from runner.report import Report
from runner.settings import BUILD, Settings

RESULTS = Path("/run/results")

# Tests of prog and net that the long form leaves out, with the reason: Catch2 cases (a comma would end a pattern: use
# the part before it), and scenarios. All others run. A reason is a feature that a kernel lacks, or the limits of an
# emulated processor.
NOT_PROG: dict[str, str] = {}
NOT_NET: dict[str, str] = {}
# Tests of the newest features: TCX, and tests that make no sense for an agent without it.
NOT_NET_6_1 = {"[features]": "this kernel has no TCX"}
SLOW = "half an hour and more here, a day on an emulated processor"
NOT_SCENARIOS = {
    "real_programs": f"its servers of five runtimes are built for the machine, and take {SLOW}",
    "other_binary": SLOW,
    "disruption": SLOW,
    "each_call": SLOW,
    "interrupted": "interrupts scripts/test, which would boot guests in a guest",
    "check": "tests/kernels/check.sh is this for other kernels",
}
# A library, the scenario that runs before the others, and one that only kernels with PREEMPT_RT run.
NOT_HERE = ("lab", "features", "realtime")

# An emulated processor is thirty times slower than the machine. So the short form is kernels/features, which main has
# already run (an agent starts, reports missing features and substitutes, and serves by tc and by XDP), every program
# with every configuration, the packet tables, random packets and flows, few of each (SLUICE_EMULATED), and the core of
# net: sockets, pods' devices by clsact, restart and kill, replaced programs, restoring filters, links and maps, and the
# cleanup of UDP sockets.
SHORT_PROG = (
    "every program loads with every configuration",
    "tables of packets give what scapy says",
    "random packets of random flows*",
    "flows under churn*",
    "SEM-81 *",
)
SHORT_NET = (
    "SEM-56 *",
    "one UDP socket hears*",
    "without TCX pods are served*",
    "a restart keeps*",
    "SEM-71 *",
    "REL-83 *",
    "REL-19 removed clsact*",
    "REL-19 an unpinned map*",
    "REL-19 one lost hook*",
    "SEM-46 connected UDP*",
    "SEM-46 a connected UDP socket goes on*",
)


def is_realtime() -> bool:
    return "PREEMPT_RT" in platform.version()


def all_but(patterns: Iterable[str]) -> str:
    """A Catch2 expression that selects the tests that match none of them."""
    return "".join(f"~{each}" if each.startswith("[") else f'~"{each}"' for each in patterns) or "*"


class Guest:
    def __init__(self, context: execute.Context, kernel: str) -> None:
        self.context = context
        self.kernel = kernel
        self.lacking: dict[str, str] = {}  # scenarios that this kernel cannot run, each with the module that it lacks
        self.not_net = dict(NOT_NET)
        self.without_tcx = kernel == "6.1"
        if self.without_tcx:
            context.environment["SLUICE_WITHOUT"] = "tcx"  # the tests must know that it is absent
            self.not_net |= NOT_NET_6_1
            self.lacking["kernels/netkit"] = "netkit"

    def catch(self, level: str, tests: str) -> None:
        execute.catch_level(self.context, level, BUILD, tests=tests, selection=f"{level}:{tests}")

    def chosen(self, tests: Sequence[str]) -> str:
        """A Catch2 expression that selects all of them; without TCX tests of the newest features are excluded."""
        return ",".join(f"~[features]{test}" if self.without_tcx else test for test in tests)

    def scenario(self, level: str, name: str) -> None:
        """Runs a scenario, or prints why this kernel cannot run it, which is no skip, because another kernel runs
        it."""
        module = self.lacking.get(f"{level}/{name}")
        if not module:
            execute.scenario(self.context, level, name)
        elif subprocess.run(["modinfo", module], capture_output=True, check=False).returncode == 0:
            self.context.report.fail(
                level, f"{level}/{name}.sh: this kernel has {module} after all; run it here", f"{level}/{name}"
            )
        else:
            self.context.report.say(f"{level}/{name}.sh: not run here: this kernel has no module {module}")

    def scenarios(self, level: str, but: Iterable[str]) -> None:
        """All but these, those that this kernel cannot run, and those with a guest of their own."""
        for path in scenarios.files(level):
            if path.stem not in but and not (level == "kernels" and scenarios.guest_settings(path.stem)):
                self.scenario(level, path.stem)

    def realtime(self) -> None:
        """The scenario of kernels with PREEMPT_RT, on such a kernel; no others can run it."""
        if is_realtime():
            self.scenario("kernels", "realtime")

    def selected(self, selection: str) -> None:
        level, separator, rest = re.split("([:/])", selection, maxsplit=1)
        if separator == ":":
            self.catch(level, rest)
        elif selection == "kernels/realtime":
            self.realtime()
        elif selection != "kernels/features":
            self.scenario(level, rest)

    def short_form(self) -> None:
        self.catch("prog", self.chosen(SHORT_PROG))
        self.catch("net", self.chosen(SHORT_NET))

    def newest_form(self) -> None:
        """The short form on kernels after those of Debian 12, besides kernels/features: whether their verifier takes
        every program, and a share of the packet tables' cases. All of them and, with PREEMPT_RT, kernels/realtime take
        an emulated processor many minutes: --long runs them."""
        self.context.environment |= {"SLUICE_CHOICES": "pairs", "SLUICE_CASES_SHARE": "24"}
        self.catch("prog", self.chosen(SHORT_PROG[:2]))

    def long_form(self) -> None:
        """Everything that is not excluded by name: prog and net in their short form, with few rounds of random cases,
        and kernels in its long form."""
        for level, left_out in (("prog", NOT_PROG), ("net", self.not_net | NOT_SCENARIOS)):
            for what, reason in left_out.items():
                self.context.report.say(f"{level}, not run here: {what} | {reason}")
        del self.context.environment["SLUICE_LONG"]
        self.catch("prog", all_but(NOT_PROG))
        self.catch("net", all_but(self.not_net))
        self.scenarios("net", NOT_SCENARIOS)
        self.context.environment["SLUICE_LONG"] = "1"
        self.scenarios("kernels", NOT_HERE)
        self.realtime()


def main(arguments: Sequence[str]) -> int:
    name, *selections = arguments
    settings = Settings.of(os.environ)
    settings.logs = RESULTS
    report = Report(settings, RESULTS / results.FILE)
    # Results remembered in a guest would be lost with it. Random tests do fewer rounds, and limits that a processor's
    # speed decides are longer, with SLUICE_EMULATED. KERNEL is for the scenarios.
    kernel = ".".join(platform.release().split(".")[:2])
    guest = Guest(
        execute.Context(settings, report, None, os.environ | {"SLUICE_EMULATED": "1", "KERNEL": kernel}), name
    )
    # Before conntrack's module is loaded, which most nodes have.
    if not selections or "kernels/features" in selections:
        execute.scenario(guest.context, "kernels", "features")
    # kernels/check has its own guest, and also checks without the module.
    if "kernels/check" not in selections:
        subprocess.run(["modprobe", "nf_conntrack"], check=True)
    for each in selections:
        guest.selected(each)
    if not selections:
        (guest.long_form if settings.long else guest.short_form if name == kernel else guest.newest_form)()
    log = guest.context.log("prog")
    if log.exists():
        (RESULTS / verifier.FILE).write_text("".join(f"{line}\n" for line in verifier.instructions(log)))
    return 0
