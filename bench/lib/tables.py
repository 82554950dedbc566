"""The report's tables, one function for each part of bench/run: text, or nothing where nothing was measured."""

import statistics

from results import PATHS, PEERS, PUBLISHED, PUBLISHED_ENDPOINTS, column, count, grouped, number, of, spread, table, total

SENDERS = {"live": "live XDP frames", "flood": "live XDP frames, node apart", "socket": "UDP socket"}
ORIGINS = {"node": "socket, on the node", "direct": "no service, on the node", "client": "tc, from the client",
           "client-xdp": "XDP, from the client"}


def workload(records):
    runs = of(records, "workload")
    if not runs:
        return ""
    groups = grouped(runs, "endpoints", "label")
    times = [[count(size), label, spread(column(group, "connect_mean", 1e3)), spread(column(group, "connect_p99", 1e3)),
              spread(column(group, "response_mean", 1e3)), spread(column(group, "response_p99", 1e3)), spread(column(group, "per_second")),
              total(group, "requests"), total(group, "failed"), total(group, "reset"), total(group, "misrouted")]
             for (size, label), group in groups.items()]
    times += [[count(PUBLISHED_ENDPOINTS), f"published, {name}", "", "", number(figures["response_mean"] * 1e3), "", figures["per_second"], "", "", "", ""]
              for name, figures in PUBLISHED.items()]
    hits = [[count(size), label, spread(column(group, "endpoints_hit")), spread(column(group, "choices")), spread(column(group, "expected_hit")), spread(column(group, "chi_square")),
             spread(column(group, "degrees")), spread(column(group, "deviation"))] for (size, label), group in groups.items()]
    return ("## One NodePort service with many endpoints, loaded with hey\n\nMilliseconds; every request on a connection of its own, 8 at a "
            "time. hey does not tell why a request has failed: resets are among those.\n\n" +
            table(["endpoints", "path", "connect, mean", "connect, 99 %", "response, mean", "response, 99 %", "requests/s", "requests", "failed",
                   "reset", "misrouted"], times) +
            "\nHow the requests are distributed. One client's ports come round again; where the tuple alone decides, so that all nodes decide the same, "
            "it then meets the same endpoint: such requests are one choice. Expected is what so many choices hit by chance alone. The last column is how far chi-square is from even, in "
            "standard deviations of chance: within ±3 is even.\n\n" +
            table(["endpoints", "path", "endpoints hit", "choices", "expected", "chi-square", "degrees of freedom", "unevenness"], hits))


def rules(records):
    """The published workload's other figures: rules, their first synchronisation, and one endpoint changed."""
    changes = [record for record in of(records, "updates") if str(record.get("size", "")).startswith("1x")]
    lines = of(records, "rules")
    keys = dict.fromkeys([(record["endpoints"], record["peer"]) for record in lines] +
                         [(int(record["size"][2:]), record["peer"]) for record in changes])
    if not keys:
        return ""
    rows = [[f"published, {name}", count(PUBLISHED_ENDPOINTS), count(figures.get("lines")),
             f"about {figures['start']}" if "start" in figures else "–", f"about {figures['update']}"] for name, figures in PUBLISHED.items()]
    for endpoints, peer in sorted(keys):
        own = [record for record in lines if (record["endpoints"], record["peer"]) == (endpoints, peer)]
        made = grouped([record for record in changes if (record["size"], record["peer"]) == (f"1x{endpoints}", peer)], "what")
        rows.append([PEERS.get(peer, peer), count(endpoints), spread(column(own, "lines")),
                     spread(column(own, "start") or column(made[("start",)], "seconds")), spread(column(made[("one endpoint",)], "seconds"))])
    return ("## Rules and updates beside the published figures\n\nOne service; seconds. The published ones are of 4,002 nodes and their API "
            "server: to stand beside ours, not to be divided by. Of nftables' rules the lines that `nft list ruleset` prints, to which maps of any size "
            "add few.\n\n" +
            table(["agent", "endpoints", "lines of rules", "first synchronisation", "one endpoint changed"], rows))


def updates(records):
    runs = of(records, "updates")
    if not runs:
        return ""
    rows = []
    for (size, what, peer), group in grouped(runs, "size", "what", "peer").items():
        most = f", {number(max(column(group, 'seen_most', 1e3)))} at most" if column(group, "seen_most") else ""
        rate = f", at {spread(column(group, 'rate'))}/s in truth" if column(group, "rate") else ""
        rows.append([size, what + rate, PEERS.get(peer, peer), spread(column(group, "answered", 1e3)), spread(column(group, "seconds", 1e3)),
                     spread(column(group, "seen", 1e3)) + most, spread(column(group, "processor", 1e3)), spread(column(group, "resident", 1e-6)),
                     spread(column(group, "resident_most", 1e-6)), spread(column(group, "calls")), total(group, "failed"), total(group, "misrouted")])
    return ("## What a start and a change cost\n\nServices × endpoints each; milliseconds, megabytes. *Answered*: when the API server had taken "
            "the change. Time to effect is from the request to the API server (a start: from the process's) to the agent's own time stamp of its "
            "last synchronisation, and as a client sees it: until the new endpoint answers at the node port. Of a rolling update the first is "
            "how far the agent is behind at its end, the second the median of one change a second. Processor time and system calls are of the "
            "agent and its children. *Failed* counts how often nobody answered the client.\n\n" +
            table(["size", "what", "agent", "API server answered", "time, its own", "time, a client's", "processor time", "resident memory",
                   "resident, peak", "system calls", "failed", "misrouted"], rows) + arrivals(runs))


def arrivals(runs):
    """What an agent tells of its own share of a change."""
    groups = grouped([run for run in runs if "within_2_ms" in run], "peer", "size", "what")
    return "".join(f"\n{PEERS.get(peer, peer)}, {size}, {what}: from the arrival of a change, not decoded yet, to its last write within 2 ms for "
                   f"{spread(column(group, 'within_2_ms', 100))} % of them, within 4 ms for {spread(column(group, 'within_4_ms', 100))} %.\n"
                   for (peer, size, what), group in groups.items())


def beyond(group, nobody, name):
    """Of each record what it has more than the same without an agent: in the same round, or else in the median of all."""
    same = grouped([record for record in nobody if record.get(name) is not None], "run", "round")
    everywhere = column(nobody, name)
    return [record[name] - statistics.median(column(same.get((record["run"], record.get("round")), []), name) or everywhere)
            for record in group if record.get(name) is not None and everywhere]


def cost(records):
    runs = of(records, "cost")
    if not runs:
        return ""
    groups, rows = grouped([run for run in runs if not run.get("extrapolated")], "size", "what", "peer"), []
    for (size, what, peer), group in groups.items():
        nobody = [] if peer == "nobody" else groups.get((size, what, "nobody"), [])
        events = (beyond(group, nobody, "events") if "change" in str(what) else []) or column(group, "events")
        rows.append([size, what, PEERS.get(peer, peer), spread(column(group, "from_server", 1e-6)), spread(column(group, "to_server", 1e-6)),
                     spread(events), spread(column(group, "processor", 1e3)), spread([more * 1e3 for more in beyond(group, nobody, "processor")])])
    return ("## What one agent costs the API server\n\nMegabytes on the wire (compressed where the agent asks for it), watch events (of "
            "changes: beyond those that the server sends without it), milliseconds of the server's processor time.\n\n" +
            table(["size", "what", "agent", "from the server, MB", "to the server, MB", "events", "processor time", "more than without"], rows) +
            extrapolated([run for run in runs if run.get("extrapolated")]))


def extrapolated(runs):
    """Of cost: what many agents would."""
    rows = [[f"{count(nodes)} nodes, {count(endpoints)} endpoints", f"{what}, extrapolated", PEERS.get(peer, peer), spread(column(group, "from_server", 1e-6)),
             spread(column(group, "to_server", 1e-6)), spread(column(group, "events")),
             spread(column(group, "processor")) if all(value > 0 for value in column(group, "processor")) else "lost in the noise"]
            for (nodes, endpoints, what, peer), group in grouped(runs, "nodes", "endpoints", "what", "peer").items()]
    return ("\nExtrapolated, not measured: so many agents, each of which costs as much as the one above, less what the server spends without; "
            "processor time in seconds.\n\n" +
            table(["size", "what", "agent", "from the server, MB", "to the server, MB", "events", "processor time"], rows)) if rows else ""


def packets(records):
    rows = []
    for (sender, protocol, flows), cases in grouped(of(records, "packets"), "sender", "protocol", "flows").items():
        peer = column([record for record in cases if record["path"] == "nftables"], "received")
        for (path,), group in grouped(cases, "path").items():
            lost = [max(0.0, 1 - record["received"] / record["sent"]) * 100 for record in group if record.get("sent")]
            received = column(group, "received")
            rows.append([SENDERS.get(sender, sender), protocol.upper(), count(flows), PATHS.get(path, path), spread([each / 1e3 for each in received]),
                         spread(lost), total(group, "misrouted"),
                         number(statistics.median(received) / statistics.median(peer)) if peer and received and statistics.median(peer) else "–"])
    return ("## Packets a second of established flows\n\nThousands a second that arrive, 60 bytes and checksum, client – node – backend over "
            "veth. The receiver is an XDP program, and one processor sends, forwards and receives; *node apart*: the node forwards on the other "
            "processor, so that the generator is not the bottleneck, and what the node has no time for is lost at its door.\n\n" +
            table(["sender", "protocol", "flows", "path", "thousands/s", "lost, %", "misrouted", "÷ kube-proxy nftables"], rows)) if rows else ""


def forwarding(records):
    """What `--forwarding stack` leaves of the packets that `redirect` sends on: the paths take turns, so each round has a ratio."""
    rows = []
    for (sender, protocol, flows), cases in grouped(of(records, "packets"), "sender", "protocol", "flows").items():
        ratios = []
        for group in grouped(cases, "run", "round").values():
            redirect, stack = ([record["received"] for (path,), part in grouped(group, "path").items() if path == wanted for record in part]
                               for wanted in ("sluice", "sluice-stack"))
            if stack and redirect and statistics.median(redirect):
                ratios.append(statistics.median(stack) / statistics.median(redirect))
        if ratios:
            rows.append([SENDERS.get(sender, sender), protocol.upper(), count(flows), spread(ratios)])
    return ("## Forwarding by the stack\n\nPackets a second with `--forwarding stack` ÷ with `--forwarding redirect`, of the same round: such a "
            "packet passes two of our hooks, and the kernel's forwarding, conntrack and firewall hooks between them.\n\n" +
            table(["sender", "protocol", "flows", "stack ÷ redirect"], rows)) if rows else ""


def path_from(origin, path):
    """On the node itself the same agents work by other means."""
    if origin == "node":
        return {"sluice": "Sluice, socket", "nftables": "kube-proxy nftables, ClusterIP", "direct": "direct"}.get(path, path)
    return PATHS.get(path, path)


def connections(records):
    rows = [[origin, path_from(origin, path), count(endpoints), spread(column(group, "per_second")), spread(column(group, "connect_p50", 1e3)),
             spread(column(group, "connect_p90", 1e3)), spread(column(group, "connect_p99", 1e3)), total(group, "failed"), total(group, "reset"),
             total(group, "misrouted")]
            for (origin, path, endpoints), group in grouped(of(records, "connections"), "from", "path", "endpoints").items()]
    return ("## Connections\n\nFresh TCP connections, 8 at a time, each until the server has answered and closed; milliseconds to connect. "
            "From the client by the node port, from the node itself by the service's address; direct: to the same endpoints without a "
            "service.\n\n" + table(["from", "path", "endpoints", "connections/s", "median", "90 %", "99 %", "failed", "reset", "misrouted"], rows)
            if rows else "")


def bulk(records):
    rows = [[origin or "–", path_from(origin, path), spread(column(group, "gigabits")), total(group, "failed"), total(group, "reset"),
             total(group, "misrouted")]
            for (origin, path), group in grouped(of(records, "bulk"), "from", "path").items()]
    return ("## Bulk\n\nOne connection's throughput, segmentation and checksums by the sender's software on all paths.\n\n" +
            table(["from", "path", "Gbit/s", "failed", "reset", "misrouted"], rows)) if rows else ""


def by_size(item):
    """Sorts groups of an origin and a size, of which the latter may be missing."""
    (origin, size), _ = item
    return str(origin), size or 0


def growth(records):
    rows = [[ORIGINS.get(origin, origin), count(size), spread(column(group, "connect_p50", 1e6)), spread(column(group, "connect_p99", 1e6)),
             total(group, "failed"), total(group, "reset"), total(group, "misrouted")]
            for (origin, size), group in sorted(grouped(of(records, "growth"), "from", "endpoints").items(), key=by_size)]
    rows += [["the call connect() of a UDP socket" + (", no service" if origin == "direct" else ""), count(size),
              spread(column(group, "call_p50", 1e-3)), spread(column(group, "call_p99", 1e-3)), "–", "–", "–"]
             for (origin, size), group in sorted(grouped(of(records, "call"), "from", "endpoints").items(), key=by_size)]
    return ("## Growth of a connect\n\nMicroseconds of one TCP connection at a time, two services of one agent in turn.\n\n" +
            table(["by", "endpoints", "median", "99 %", "failed", "reset", "misrouted"], rows)) if rows else ""
