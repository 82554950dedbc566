# SPDX-License-Identifier: Apache-2.0
"""The report's tables, one function for each part of bench/run. Each returns text, which is empty if nothing was measured."""

import statistics

from results import PATHS, PEERS, PUBLISHED, PUBLISHED_ENDPOINTS, column, count, grouped, number, of, spread, table, total

SENDERS = {"live": "live XDP frames", "flood": "live XDP frames, node on the other processor", "socket": "UDP socket"}
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
    return ("## One NodePort service with many endpoints, loaded with hey\n\nMilliseconds; every request uses a new connection, 8 at a "
            "time. hey does not report why a request failed, so failures include resets.\n\n" +
            table(["endpoints", "path", "connect, mean", "connect, 99 %", "response, mean", "response, 99 %", "requests/s", "requests", "failed",
                   "reset", "misrouted"], times) +
            "\nThe distribution of the requests. A client reuses its ports. If the tuple alone decides, so that all nodes select the same endpoint, a "
            "reused port reaches the same endpoint again: such requests are one choice. *Expected* is the number of endpoints that so many random "
            "choices hit. The last column is the deviation of chi-square from a uniform distribution, in standard deviations; within ±3 is even.\n\n" +
            table(["endpoints", "path", "endpoints hit", "choices", "expected", "chi-square", "degrees of freedom", "unevenness"], hits))


def rules(records):
    """The other figures of the published workload: rules, their first synchronisation, and one changed endpoint."""
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
    return ("## Rules and updates beside the published figures\n\nOne service; seconds. The published figures are from 4,002 nodes and their "
            "API server: for orientation, not for ratios. nftables' rules are counted as lines of `nft list ruleset`, to which maps of any size add "
            "few.\n\n" +
            table(["agent", "endpoints", "lines of rules", "first synchronisation", "one endpoint changed"], rows))


def updates(records):
    runs = of(records, "updates")
    if not runs:
        return ""
    rows = []
    for (size, what, peer), group in grouped(runs, "size", "what", "peer").items():
        most = f", {number(max(column(group, 'seen_most', 1e3)))} at most" if column(group, "seen_most") else ""
        rate = f", at {spread(column(group, 'rate'))}/s measured" if column(group, "rate") else ""
        rows.append([size, what + rate, PEERS.get(peer, peer), spread(column(group, "answered", 1e3)), spread(column(group, "seconds", 1e3)),
                     spread(column(group, "seen", 1e3)) + most, spread(column(group, "processor", 1e3)), spread(column(group, "resident", 1e-6)),
                     spread(column(group, "resident_most", 1e-6)), spread(column(group, "calls")), total(group, "failed"), total(group, "misrouted")])
    return ("## What a start and a change cost\n\nServices × endpoints each; milliseconds, megabytes. *API server answered*: until the API server's "
            "response to the change. Time to effect begins with the request to the API server (for a start: with the process). It ends with the "
            "agent's own time stamp of its last synchronisation, or, as a client sees it, when the new endpoint answers at the node port. For a "
            "rolling update the first is how far the agent is behind at its end, the second the median of one change per second. Processor time and "
            "system calls include the agent's children. *Failed*: the client's connections without an answer.\n\n" +
            table(["size", "what", "agent", "API server answered", "time to effect, agent", "time to effect, client", "processor time", "resident memory",
                   "resident, peak", "system calls", "failed", "misrouted"], rows) + arrivals(runs))


def arrivals(runs):
    """The agent's own share of the time of a change, if it has such a metric."""
    groups = grouped([run for run in runs if "within_2_ms" in run], "peer", "size", "what")
    return "".join(f"\n{PEERS.get(peer, peer)}, {size}, {what}: from the arrival of a change, before decoding, to its last write within 2 ms for "
                   f"{spread(column(group, 'within_2_ms', 100))} % of the changes, within 4 ms for {spread(column(group, 'within_4_ms', 100))} %.\n"
                   for (peer, size, what), group in groups.items())


def beyond(group, baseline, name):
    """For each record, its excess over the baseline without an agent: in the same round, or else over the median of all rounds."""
    same = grouped([record for record in baseline if record.get(name) is not None], "run", "round")
    everywhere = column(baseline, name)
    return [record[name] - statistics.median(column(same.get((record["run"], record.get("round")), []), name) or everywhere)
            for record in group if record.get(name) is not None and everywhere]


def cost(records):
    runs = of(records, "cost")
    if not runs:
        return ""
    groups, rows = grouped([run for run in runs if not run.get("extrapolated")], "size", "what", "peer"), []
    for (size, what, peer), group in groups.items():
        baseline = [] if peer == "nobody" else groups.get((size, what, "nobody"), [])
        events = (beyond(group, baseline, "events") if "change" in str(what) else []) or column(group, "events")
        rows.append([size, what, PEERS.get(peer, peer), spread(column(group, "from_server", 1e-6)), spread(column(group, "to_server", 1e-6)),
                     spread(events), spread(column(group, "processor", 1e3)), spread([more * 1e3 for more in beyond(group, baseline, "processor")])])
    return ("## What one agent costs the API server\n\nMegabytes on the wire (compressed if the agent requests it), watch events (for "
            "changes: in excess of those without an agent), milliseconds of the server's processor time.\n\n" +
            table(["size", "what", "agent", "from the server, MB", "to the server, MB", "events", "processor time", "excess over no agent"], rows) +
            extrapolated([run for run in runs if run.get("extrapolated")]))


def extrapolated(runs):
    """The table of the extrapolated costs of many agents."""
    rows = [[f"{count(nodes)} nodes, {count(endpoints)} endpoints", f"{what}, extrapolated", PEERS.get(peer, peer), spread(column(group, "from_server", 1e-6)),
             spread(column(group, "to_server", 1e-6)), spread(column(group, "events")),
             spread(column(group, "processor")) if all(value > 0 for value in column(group, "processor")) else "less than the noise"]
            for (nodes, endpoints, what, peer), group in grouped(runs, "nodes", "endpoints", "what", "peer").items()]
    return ("\nExtrapolated, not measured: many agents, each of which costs as much as the one above, less the server's cost without an agent; "
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
    return ("## Packets a second of established flows\n\nThousands of received packets per second, 60 bytes and checksum, client – node – "
            "backend over veth. The receiver is an XDP program, and one processor sends, forwards and receives. *Node on the other processor*: the "
            "node forwards there, so that the generator is not the bottleneck; packets that it cannot process in time are lost at its device.\n\n" +
            table(["sender", "protocol", "flows", "path", "thousands/s", "lost, %", "misrouted", "÷ kube-proxy nftables"], rows)) if rows else ""


def forwarding(records):
    """The packet rate with `--forwarding stack` relative to `redirect`; the paths take turns, so each round has a ratio."""
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
    return ("## Forwarding by the stack\n\nPackets per second with `--forwarding stack` ÷ with `--forwarding redirect`, in the same round. With "
            "`stack` a packet passes two of our hooks, and between them the kernel's forwarding, conntrack and firewall hooks.\n\n" +
            table(["sender", "protocol", "flows", "stack ÷ redirect"], rows)) if rows else ""


def path_from(origin, path):
    """The name of a path; on the node itself the same agents use other mechanisms."""
    if origin == "node":
        return {"sluice": "Sluice, socket", "nftables": "kube-proxy nftables, ClusterIP", "direct": "direct"}.get(path, path)
    return PATHS.get(path, path)


def connections(records):
    rows = [[origin, path_from(origin, path), count(endpoints), spread(column(group, "per_second")), spread(column(group, "connect_p50", 1e3)),
             spread(column(group, "connect_p90", 1e3)), spread(column(group, "connect_p99", 1e3)), total(group, "failed"), total(group, "reset"),
             total(group, "misrouted")]
            for (origin, path, endpoints), group in grouped(of(records, "connections"), "from", "path", "endpoints").items()]
    return ("## Connections\n\nNew TCP connections, 8 at a time, each until the server has answered and closed it; milliseconds to connect. "
            "The client uses the node port, the node itself the service's address; direct: to the same endpoints without a "
            "service.\n\n" + table(["from", "path", "endpoints", "connections/s", "median", "90 %", "99 %", "failed", "reset", "misrouted"], rows)
            if rows else "")


def bulk(records):
    rows = [[origin or "–", path_from(origin, path), spread(column(group, "gigabits")), total(group, "failed"), total(group, "reset"),
             total(group, "misrouted")]
            for (origin, path), group in grouped(of(records, "bulk"), "from", "path").items()]
    return ("## Bulk\n\nThroughput of one connection; on all paths the sender's software does segmentation and checksums.\n\n" +
            table(["from", "path", "Gbit/s", "failed", "reset", "misrouted"], rows)) if rows else ""


def by_size(item):
    """The sort key of a group of an origin and a size; the size may be missing."""
    (origin, size), _ = item
    return str(origin), size or 0


def growth(records):
    rows = [[ORIGINS.get(origin, origin), count(size), spread(column(group, "connect_p50", 1e6)), spread(column(group, "connect_p99", 1e6)),
             total(group, "failed"), total(group, "reset"), total(group, "misrouted")]
            for (origin, size), group in sorted(grouped(of(records, "growth"), "from", "endpoints").items(), key=by_size)]
    rows += [["connect() of a UDP socket" + (", no service" if origin == "direct" else ""), count(size),
              spread(column(group, "call_p50", 1e-3)), spread(column(group, "call_p99", 1e-3)), "–", "–", "–"]
             for (origin, size), group in sorted(grouped(of(records, "call"), "from", "endpoints").items(), key=by_size)]
    return ("## Time to connect by number of endpoints\n\nMicroseconds; one TCP connection at a time, two services of one agent by turns.\n\n" +
            table(["by", "endpoints", "median", "99 %", "failed", "reset", "misrouted"], rows)) if rows else ""
