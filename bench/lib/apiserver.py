# SPDX-License-Identifier: Apache-2.0
"""Measures what an agent costs the API server: bytes on the wire to and from the agent's node (counted by nftables, headers included),
watch events that the server has sent to all clients, and the server's processor time. Runs in the server's network namespace. The
costs of the same changes without an agent (PEER=nobody) are the baseline."""

import json
import pathlib
import re
import statistics
import subprocess
import time

import changes
import kube

RULES = """table inet bench {{
    counter to {{}}
    counter from {{}}
    chain input {{ type filter hook input priority 0; ip saddr {node} tcp dport 6443 counter name to; }}
    chain output {{ type filter hook output priority 0; ip daddr {node} tcp sport 6443 counter name from; }}
}}
"""


def count(node):
    """Counts bytes between that address and the API server from now on."""
    subprocess.run(["nft", "-f", "-"], input=RULES.format(node=node), text=True, check=True)


class Server:
    def __init__(self, cgroup):
        self.cgroup, self.api = pathlib.Path(cgroup), kube.Api()

    def counters(self):
        found = json.loads(subprocess.run(["nft", "-j", "list", "counters"], capture_output=True, text=True, check=True).stdout)
        return {each["counter"]["name"]: each["counter"]["bytes"] for each in found["nftables"] if "counter" in each}

    def events(self):
        """The number of watch events of Services and EndpointSlices, to all clients."""
        text = self.api.request("GET", "/metrics", accept="text/plain").decode()
        found = re.findall(r"^apiserver_watch_events_total\{([^}]*)\} (\S+)", text, re.M)
        return int(sum(float(value) for labels, value in found if re.search(r'="(services|endpointslices|Service|EndpointSlice)"', labels)))

    def processor(self):
        return int(re.search(r"^usage_usec (\d+)", (self.cgroup / "cpu.stat").read_text(), re.M).group(1)) / 1e6

    def figures(self):
        counters = self.counters()
        return {"to_server": counters["to"], "from_server": counters["from"], "events": self.events(), "processor": self.processor(),
                "span": time.monotonic()}


def difference(after, before):
    return {key: round(after[key] - before[key], 6) for key in after}


def cost_of_changes(server, size, number, rate):
    """The record of so many changes at that rate, each of one endpoint."""
    patches, before, begin = changes.Patches(size), server.figures(), time.time()
    for at in range(number):
        time.sleep(max(0.0, begin + at / rate - time.time()))
        patches.replace(at * 7919, 1)
    time.sleep(3)
    return {"what": f"{number} changes", "size": size} | difference(server.figures(), before)


COUNTS = ("to_server", "from_server", "events")


def rounds(records, **wanted):
    return [record for record in records if "skipped" not in record and "extrapolated" not in record and
            all(record.get(key) == value for key, value in wanted.items())]


def beyond(one, baseline, field):
    """The median of that field with the agent, less the median without an agent."""
    return statistics.median(record[field] for record in one) - statistics.median(record[field] for record in baseline)


def processor_beyond(one, baseline):
    """The same for processor time, over equal spans; None if the rounds differ by more than the agent costs."""
    rates = [record["processor"] / record["span"] for record in baseline]
    costs = [record["processor"] - statistics.median(rates) * record["span"] for record in one]
    noise = max(max(costs) - min(costs), (max(rates) - min(rates)) * statistics.median(record["span"] for record in one))
    return statistics.median(costs) if statistics.median(costs) > noise else None


def extrapolated(records, size, nodes, endpoints):
    """Records of the cost of `nodes` agents, each as much as the measured agent, less the server's cost without an agent. The cost of a
    start grows with the number of endpoints; that of a change does not, because its slice has the same size."""
    held = size.services * size.endpoints
    for what in dict.fromkeys(record["what"] for record in rounds(records, part="cost", size=size.text)):
        wanted = {"part": "cost", "size": size.text, "what": what}
        baseline, factor = rounds(records, peer="nobody", **wanted), nodes * (endpoints / held if what == "start" else 1)
        for peer in ("nftables", "sluice"):
            one = rounds(records, peer=peer, **wanted)
            if not one or not baseline:
                continue
            found, processor = {key: round(beyond(one, baseline, key) * factor) for key in COUNTS}, processor_beyond(one, baseline)
            if processor is None:
                yield {"part": f"cost, extrapolated, processor time, {peer}, {what}", "skipped": "the rounds differ by more than an agent costs"}
            else:
                found["processor"] = round(processor * factor, 3)
            yield wanted | {"peer": peer, "extrapolated": True, "nodes": nodes, "endpoints": endpoints} | found
