# SPDX-License-Identifier: Apache-2.0
"""Reads an agent under measurement, kube-proxy or Sluice, in the same way: by kube-proxy's metric of the last synchronisation, which
both have, and by the kernel's counters of the cgroup with the agent and its children. Times are seconds, memory is bytes.

Environment, set by bench/lib/peers.sh: PEER, PEER_PID, PEER_CGROUP, PEER_CALLS (pins of bench_syscalls), BENCH_SYSCALLS."""

import os
import pathlib
import re
import subprocess
import time
import urllib.request

METRICS = "http://127.0.0.1:10249/metrics"
TICKS = os.sysconf("SC_CLK_TCK")
LAST = re.compile(r'^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*ip_family="IPv4"[^}]*\})? (\S+)', re.M)
CHANGES = re.compile(r'^sluice_change_seconds_bucket\{le="([^"]+)"\} (\S+)', re.M)


class Busy(Exception):
    """The agent still uses the processor when it should be idle."""


class Agent:
    def __init__(self):
        self.name = os.environ["PEER"]
        self.pid = int(os.environ["PEER_PID"])
        self.cgroup = pathlib.Path(os.environ["PEER_CGROUP"])

    def alive(self):
        return os.path.exists(f"/proc/{self.pid}")

    def processor(self):
        return int(re.search(r"^usage_usec (\d+)", (self.cgroup / "cpu.stat").read_text(), re.M).group(1)) / 1e6

    def calls(self):
        """The number of system calls so far; None if the kernel does not permit counting them."""
        found = subprocess.run([os.environ["BENCH_SYSCALLS"], "read", os.environ["PEER_CALLS"]], capture_output=True, text=True, check=False)
        return int(found.stdout) if found.returncode == 0 else None

    def memory(self):
        """Resident memory now, and its maximum; of the agent without its children."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return {name: int(re.search(rf"^{field}:\s+(\d+)", text, re.M).group(1)) * 1024
                for name, field in (("resident", "VmRSS"), ("resident_most", "VmHWM"))}

    def started(self):
        """The Unix time of the agent's start, to a hundredth of a second."""
        ticks = int(pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
        return time.time() - uptime + ticks / TICKS

    def wait_idle(self, quiet=1.0, max_seconds=120.0):
        """Waits until the agent uses less than 2 % of a processor in `quiet` seconds; raises Busy if that does not happen within `max_seconds`."""
        until, before = time.monotonic() + max_seconds, self.processor()
        while time.monotonic() < until:
            time.sleep(quiet)
            now = self.processor()
            if now - before <= 0.02 * quiet:
                return
            before = now
        raise Busy(f"{self.name} is still busy after {max_seconds:g} s")

    def spent(self):
        return Spent(self)


class Spent:
    """The agent's costs since this object was made."""

    def __init__(self, agent):
        self.agent, self.before, self.calls = agent, agent.processor(), agent.calls()

    def fields(self):
        processor, calls = self.agent.processor() - self.before, self.agent.calls()
        found = {"processor": round(processor, 6)} | self.agent.memory()
        return found if calls is None or self.calls is None else found | {"calls": calls - self.calls}


def metrics():
    """The text of the agent's metrics; to be called in its network namespace."""
    with urllib.request.urlopen(METRICS, timeout=10) as answer:
        return answer.read().decode()


def last_sync():
    """The Unix time of the agent's last synchronisation; 0 before the first one."""
    return max(map(float, LAST.findall(metrics())), default=0.0)


def changes():
    """The histogram of the time from a change's arrival until it is in effect, in seconds; empty if the agent has no such metric."""
    return {float(most): float(count) for most, count in CHANGES.findall(metrics())}


def shares(before, after):
    """The shares of the changes between two histograms that were in effect within 2 and 4 ms (the histogram's 1.95 and 3.9)."""
    made = {most: after[most] - before.get(most, 0.0) for most in after}
    total = max(made.values(), default=0.0)
    return {f"within_{max_seconds:g}_ms": round(max(count for bound, count in made.items() if bound * 1e3 <= most) / total, 4)
            for most in (2, 4)} if total else {}


def enter(descriptor):
    """Moves the calling thread into a network namespace."""
    if hasattr(os, "setns"):
        os.setns(descriptor, os.CLONE_NEWNET)
        return
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class RemoteMetrics:
    """The metrics of an agent in another network namespace."""

    def __init__(self, path):
        self.inside, self.here = os.open(path, os.O_RDONLY), os.open("/proc/self/ns/net", os.O_RDONLY)

    def read(self, function):
        """Calls the function in that namespace, and returns its result."""
        enter(self.inside)
        try:
            return function()
        finally:
            enter(self.here)

    def last_sync(self):
        return self.read(last_sync)
