# SPDX-License-Identifier: Apache-2.0
"""The goals of bench/run, each for a ratio of two measured medians, with the smallest and the largest ratio of single rounds."""

import dataclasses
import statistics

import results


@dataclasses.dataclass
class Found:
    value: float
    rounds: list  # the ratio within each round that has both
    endpoints: int | None  # the number of endpoints at which it was measured, unless the goal specifies it

    def text(self):
        spread = f" ({min(self.rounds):.3g}–{max(self.rounds):.3g})" if len(self.rounds) > 1 else ""
        return f"{self.value:.3g}{spread}" + ("" if self.endpoints is None else f" at {self.endpoints:,} endpoints")


def medians(records, field, *names):
    """The medians of that field, by the values of these fields."""
    return {key: statistics.median(results.column(group, field)) for key, group in results.grouped(records, *names).items()}


@dataclasses.dataclass
class Goal:
    title: str
    part: str
    field: str
    over: dict
    under: dict
    wanted: float
    sign: str = "≥"

    def found(self, records):
        """The measured ratio; None if one of the two was not measured. If there are several numbers of endpoints, the largest at which both
        were measured counts."""
        over, under = (self.matching(records, where) for where in (self.over, self.under))
        at = None
        if "endpoints" not in self.over:
            common = {record.get("endpoints") for record in over} & {record.get("endpoints") for record in under}
            at = max(common, key=lambda size: size or 0, default=None)
            over, under = ([record for record in side if record.get("endpoints") == at] for side in (over, under))
        if not over or not under or statistics.median(results.column(under, self.field)) <= 0:
            return None
        value = statistics.median(results.column(over, self.field)) / statistics.median(results.column(under, self.field))
        return Found(value, self.ratios(over, under), at)

    def matching(self, records, where):
        return [record for record in results.of(records, self.part)
                if record.get(self.field) is not None and all(record.get(key) == value for key, value in where.items())]

    def ratios(self, over, under):
        """The ratio within each round, for records that have a round."""
        above, below = ({key: value for key, value in medians(side, self.field, "run", "round").items() if key[1] is not None}
                        for side in (over, under))
        return [above[key] / below[key] for key in above if below.get(key, 0) > 0]

    def reached(self, value):
        return value >= self.wanted if self.sign == "≥" else value <= self.wanted


def update(what, peer):
    return {"size": "1x100000", "what": what, "peer": peer}


def frames(sender, path):
    return {"sender": sender, "protocol": "udp", "flows": 1, "path": path}


GOALS = [
    Goal("one endpoint changed among 100,000: time to effect, kube-proxy nftables ÷ Sluice", "updates", "seconds",
         update("one endpoint", "nftables"), update("one endpoint", "sluice"), 300),
    Goal("the same as a client sees it", "updates", "seen", update("one endpoint", "nftables"), update("one endpoint", "sluice"), 300),
    Goal("the same: CPU seconds", "updates", "processor", update("one endpoint", "nftables"), update("one endpoint", "sluice"), 100),
    Goal("start to all programmed, 100,000 endpoints, kube-proxy nftables ÷ Sluice", "updates", "seconds",
         update("start", "nftables"), update("start", "sluice"), 2),
    Goal("resident memory, kube-proxy nftables ÷ Sluice", "updates", "resident", update("start", "nftables"), update("start", "sluice"), 6),
    Goal("connections/s, ClusterIP by socket ÷ direct", "connections", "per_second",
         {"from": "node", "path": "sluice"}, {"from": "node", "path": "direct"}, 0.97),
    Goal("connections/s, NodePort by XDP ÷ kube-proxy nftables", "connections", "per_second",
         {"from": "client", "path": "sluice-xdp"}, {"from": "client", "path": "nftables"}, 1.3),
    Goal("packets/s, XDP ÷ kube-proxy nftables, live XDP frames, generator not the bottleneck", "packets", "received",
         frames("flood", "sluice-xdp"), frames("flood", "nftables"), 3),
    Goal("the same with a UDP socket as the sender", "packets", "received", frames("socket", "sluice-xdp"), frames("socket", "nftables"), 1.6),
    Goal("connect time at 1,000,000 endpoints ÷ at 10, by socket", "growth", "connect_p50",
         {"from": "node", "endpoints": 1000000}, {"from": "node", "endpoints": 10}, 1.1, "≤"),
    Goal("the same from outside, by tc", "growth", "connect_p50",
         {"from": "client", "endpoints": 1000000}, {"from": "client", "endpoints": 10}, 1.1, "≤"),
    Goal("the same from outside, by XDP", "growth", "connect_p50",
         {"from": "client-xdp", "endpoints": 1000000}, {"from": "client-xdp", "endpoints": 10}, 1.1, "≤"),
]
