"""An agent under measurement, kube-proxy or Sluice, both read in one way: by kube-proxy's metric of the last synchronisation, which
both have, and by what the kernel says of the cgroup that holds the agent and its children. Times are seconds, memory is bytes.

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
        """System calls so far; None where the kernel does not let them be counted."""
        found = subprocess.run([os.environ["BENCH_SYSCALLS"], "read", os.environ["PEER_CALLS"]], capture_output=True, text=True, check=False)
        return int(found.stdout) if found.returncode == 0 else None

    def resident(self):
        return int(re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.pid}/status").read_text(), re.M).group(1)) * 1024

    def started(self):
        """Unix time of its start, to a hundredth of a second."""
        ticks = int(pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
        return time.time() - uptime + ticks / TICKS

    def wait_idle(self, quiet=1.0, most=120.0):
        """Until it has computed nothing worth a tick in `quiet` seconds."""
        until, before = time.monotonic() + most, self.processor()
        while time.monotonic() < until:
            time.sleep(quiet)
            now = self.processor()
            if now - before <= 0.02 * quiet:
                return
            before = now

    def spent(self):
        return Spent(self)


class Spent:
    """What the agent spends from here on."""

    def __init__(self, agent):
        self.agent, self.before, self.calls = agent, agent.processor(), agent.calls()

    def fields(self):
        processor, calls = self.agent.processor() - self.before, self.agent.calls()
        found = {"processor": round(processor, 6), "resident": self.agent.resident()}
        return found if calls is None or self.calls is None else found | {"calls": calls - self.calls}


def last_sync():
    """Unix time at which the agent had last brought the kernel up to date; 0 before the first time. In its network namespace."""
    with urllib.request.urlopen(METRICS, timeout=10) as answer:
        return max(map(float, LAST.findall(answer.read().decode())), default=0.0)


def enter(descriptor):
    """A network namespace, for the calling thread."""
    if hasattr(os, "setns"):
        os.setns(descriptor, os.CLONE_NEWNET)
        return
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Elsewhere:
    """last_sync() from another network namespace."""

    def __init__(self, path):
        self.inside, self.here = os.open(path, os.O_RDONLY), os.open("/proc/self/ns/net", os.O_RDONLY)

    def last_sync(self):
        enter(self.inside)
        try:
            return last_sync()
        finally:
            enter(self.here)
