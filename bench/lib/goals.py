"""The figures to reach, each a ratio of what one run of bench/run has measured."""

import dataclasses
import statistics


@dataclasses.dataclass
class Found:
    value: float
    text: str


def values(records, part, field, where):
    return [record[field] for record in records
            if record["part"] == part and field in record and all(record.get(key) == value for key, value in where.items())]


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
        over, under = (values(records, self.part, self.field, where) for where in (self.over, self.under))
        if not over or not under or statistics.median(under) <= 0:
            return None
        value = statistics.median(over) / statistics.median(under)
        return Found(value, f"{value:.3g}")

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
]
