"""What an agent costs the API server: bytes on the wire to and from its node (counted by nftables, headers included), watch events
that the server has sent to everybody, and the server's processor time. Runs in the server's network namespace; the same changes
without any agent (PEER=nobody) say what of it is not the agent's."""

import json
import os
import pathlib
import re
import subprocess
import time

import changes
import kube
import objects

TICKS = os.sysconf("SC_CLK_TCK")
RULES = """table inet bench {{
    counter to {{}}
    counter from {{}}
    chain input {{ type filter hook input priority 0; ip saddr {node} tcp dport 6443 counter name to; }}
    chain output {{ type filter hook output priority 0; ip daddr {node} tcp sport 6443 counter name from; }}
}}
"""


def count(node):
    subprocess.run(["nft", "-f", "-"], input=RULES.format(node=node), text=True, check=True)


class Server:
    def __init__(self, pid):
        self.pid, self.api = pid, kube.Api()

    def counters(self):
        found = json.loads(subprocess.run(["nft", "-j", "list", "counters"], capture_output=True, text=True, check=True).stdout)
        return {each["counter"]["name"]: each["counter"]["bytes"] for each in found["nftables"] if "counter" in each}

    def events(self):
        """Of Services and EndpointSlices, to all who watch."""
        text = self.api.ask("GET", "/metrics", accept="text/plain").decode()
        found = re.findall(r"^apiserver_watch_events_total\{([^}]*)\} (\S+)", text, re.M)
        return int(sum(float(value) for labels, value in found if re.search(r'="(services|endpointslices|Service|EndpointSlice)"', labels)))

    def processor(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / TICKS

    def figures(self):
        counters = self.counters()
        return {"to_server": counters["to"], "from_server": counters["from"], "events": self.events(), "processor": self.processor()}


def difference(after, before):
    return {key: round(after[key] - before[key], 3) for key in after}


class Patches(changes.Changes):
    """The changes alone, without an agent to look at."""

    def __init__(self, size):  # pylint: disable=super-init-not-called
        self.size, self.api, self.fresh = objects.Size(size), kube.Api(), objects.Fresh()

    def run(self, count_, rate):
        begin = time.time()
        for at in range(count_):
            time.sleep(max(0.0, begin + at / rate - time.time()))
            self.replace(at * 7919, 1)


def cost_of_changes(server, size, count_, rate):
    patches, before = Patches(size), server.figures()
    patches.run(count_, rate)
    time.sleep(3)
    return {"what": f"{count_} changes", "size": size} | difference(server.figures(), before)
