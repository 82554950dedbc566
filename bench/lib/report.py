"""Makes the report of a run of bench/run: results.json, results.md, and plots as SVG and PNG. usage: report.py DIRECTORY

Medians, with the smallest and the largest value behind them. What was skipped is in the report with its reason."""

import collections
import json
import pathlib
import statistics
import sys

import goals

# Published at KubeCon EU 2020 for the same workload at 4,002 nodes; to stand beside ours, not to be compared by ratio.
PUBLISHED = {"iptables": {"response_mean": 0.88, "per_second": 248.7, "update": 25}, "IPVS": {"response_mean": 1.75, "per_second": 248.3, "update": 5}}
# What a path is called in a table.
PATHS = {"plain": "plain routing", "direct": "direct, routed", "nftables": "kube-proxy nftables", "sluice": "Sluice, tc", "sluice-xdp": "Sluice, XDP"}


def read(directory):
    with open(directory / "records.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def spread(values, unit=""):
    if not values:
        return "–"
    middle = statistics.median(values)
    if len(values) == 1:
        return f"{middle:.4g}{unit}"
    return f"{middle:.4g}{unit} ({min(values):.4g}–{max(values):.4g})"


def grouped(records, key):
    groups = collections.defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return groups


def column(records, name, factor=1.0):
    return [record[name] * factor for record in records if name in record]


def of(records, part):
    """The figures of a part: neither that it was skipped, nor the table that a program printed."""
    return [record for record in records if record["part"] == part and "skipped" not in record and "table" not in record]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def environment(records):
    """Of each run that added to these results."""
    found = of(records, "environment")
    keys = dict.fromkeys(key for record in found for key in record if key != "part")
    return "\n".join(f"- {key}: {', '.join(dict.fromkeys(str(record.get(key, '–')) for record in found))}" for key in keys) + "\n"


def reached(records):
    rows = [[goal.title, "–" if found is None else found.text, f"{goal.sign} {goal.wanted:g}",
             "not measured" if found is None else "reached" if goal.reached(found.value) else "MISSED"]
            for goal in goals.GOALS for found in [goal.found(records)]]
    return ("## Figures to reach\n\nMedians of this run.\n\n" + table(["", "found", "wanted", ""], rows))


def workload(records):
    runs = of(records, "workload")
    if not runs:
        return ""
    rows = []
    for label, group in grouped(runs, lambda record: record["label"]).items():
        rows.append([label, spread(column(group, "connect_mean", 1e3)), spread(column(group, "connect_p99", 1e3)),
                     spread(column(group, "response_mean", 1e3)), spread(column(group, "response_p99", 1e3)),
                     spread(column(group, "per_second")), str(sum(column(group, "failed"))), spread(column(group, "endpoints_hit")),
                     spread(column(group, "deviation"))])
    published = [[f"published, {name}", "", "", f"{figures['response_mean'] * 1e3:.4g}", "", f"{figures['per_second']}", "", "", ""]
                 for name, figures in PUBLISHED.items()]
    return ("## One NodePort service with many endpoints, loaded with hey\n\nMilliseconds; every request on a connection of its own, 8 at a "
            "time. The last column says how far the hits are from even, in standard deviations of chance: within ±3 is even.\n\n" +
            table(["path", "connect, mean", "connect, 99 %", "response, mean", "response, 99 %", "requests/s", "failed", "endpoints hit",
                   "unevenness"], rows + published))


def updates(records):
    runs = of(records, "updates")
    if not runs:
        return ""
    rows = []
    for (size, what, peer), group in grouped(runs, lambda record: (record["size"], record["what"], record["peer"])).items():
        most = f", {max(column(group, 'seen_most', 1e3)):.4g} at most" if column(group, "seen_most") else ""
        rate = f", at {statistics.median(column(group, 'rate')):.3g}/s in truth" if column(group, "rate") else ""
        rows.append([size, what + rate, PATHS.get(peer, peer) if peer == "nftables" else peer, spread(column(group, "seconds", 1e3)),
                     spread(column(group, "seen", 1e3)) + most, spread(column(group, "processor", 1e3)),
                     spread(column(group, "resident", 1e-6)), spread(column(group, "calls")), str(sum(column(group, "failed")))])
    return ("## What a start and a change cost\n\nServices × endpoints each; milliseconds, megabytes. Time to effect is from the request to "
            "the API server (a start: from the process's) to the agent's own time stamp of its last synchronisation, and as a client sees "
            "it: until the new endpoint answers at the node port. Of a rolling update the first is how far the agent is behind at its end, "
            "the second the median of one change a second. Processor time and system calls are of the agent and its children. The last "
            "column counts how often nobody answered the client.\n\n" +
            table(["size", "what", "peer", "time, its own", "time, a client's", "processor time", "resident memory", "system calls", "failed"], rows) +
            arrivals(runs))


def arrivals(runs):
    """What an agent tells of its own share of a change."""
    return "".join(f"\n{run['peer']}, {run['size']}, {run['what']}: from the arrival of a change, not decoded yet, to its last write within 2 ms for "
                   f"{run['within_2_ms']:.1%} of them, within 4 ms for {run['within_4_ms']:.1%}.\n" for run in runs if "within_2_ms" in run)


def cost(records):
    runs = of(records, "cost")
    if not runs:
        return ""
    nobody = {record["what"]: record for record in runs if record["peer"] == "nobody"}
    rows = []
    for record in runs:
        base = nobody.get(record["what"], {}) if record["peer"] != "nobody" else {}
        rows.append([record["size"], record["what"], record["peer"], f"{record['from_server'] / 1e6:.3f}", f"{record['to_server'] / 1e6:.3f}",
                     f"{record['events'] - (base.get('events', 0) if 'changes' in record['what'] else 0)}", f"{record['processor'] * 1e3:.0f}",
                     f"{(record['processor'] - base['processor']) * 1e3:.0f}" if base else "–"])
    return ("## What one agent costs the API server\n\nMegabytes on the wire (compressed where the agent asks for it), watch events (of "
            "changes: beyond those that the server sends without it), milliseconds of the server's processor time, in ticks of 10 ms.\n\n" +
            table(["size", "what", "agent", "from the server, MB", "to the server, MB", "events", "processor time", "more than without"], rows))


def packets(records):
    runs = of(records, "packets")
    if not runs:
        return ""
    rows = []
    for (sender, protocol, flows), cases in grouped(runs, lambda record: (record["sender"], record["protocol"], record["flows"])).items():
        paths = grouped(cases, lambda record: record["path"])
        peer = column(paths.get("nftables", []), "received")
        for path, group in paths.items():
            received = column(group, "received", 1e-3)
            lost = 1 - sum(column(group, "received")) / max(1.0, sum(column(group, "sent")))
            rows.append([{"live": "live XDP frames", "flood": "live XDP frames, node apart", "socket": "UDP socket"}[sender], protocol.upper(), f"{flows:,}", PATHS[path],
                         spread(received), f"{lost * 100:.2g} %",
                         f"{statistics.median(received) * 1e3 / statistics.median(peer):.2f}" if peer else "–"])
    return ("## Packets a second of established flows\n\nThousands a second that arrive, 60 bytes and checksum, client – node – backend over "
            "veth. The receiver is an XDP program, and one processor sends, forwards and receives; *node apart*: the node forwards on the other "
            "processor, so that the generator is not the bottleneck, and what the node has no time for is lost at its door.\n\n" +
            table(["sender", "protocol", "flows", "path", "thousands/s", "lost", "÷ kube-proxy nftables"], rows))


def connections(records):
    runs, rows = of(records, "connections"), []
    for (origin, path), group in grouped(runs, lambda record: (record["from"], record["path"])).items():
        name = {"sluice": "Sluice, socket", "nftables": "kube-proxy nftables, ClusterIP", "direct": "direct"}.get(path, path)
        rows.append([origin, name if origin == "node" else PATHS[path], spread(column(group, "per_second")), spread(column(group, "connect_p50", 1e3)),
                     spread(column(group, "connect_p90", 1e3)), spread(column(group, "connect_p99", 1e3)),
                     str(sum(column(group, "failed")) + sum(column(group, "misrouted")))])
    text = ("## Connections\n\nFresh TCP connections, 8 at a time, each until the server has answered and closed; milliseconds to connect. "
            "From the client by the node port, from the node itself by the service's address; direct: to the same endpoints without a "
            "service.\n\n" + table(["from", "path", "connections/s", "median", "90 %", "99 %", "failed or misrouted"], rows)) if rows else ""
    bulk = grouped(of(records, "bulk"), lambda record: record["path"])
    if bulk:
        text += "\nOne connection's throughput, segmentation and checksums by the sender's software on all paths:\n\n" + table(
            ["path", "Gbit/s"], [[PATHS[path], spread(column(group, "gigabits"))] for path, group in bulk.items()])
    return text


def growth(records):
    rows = []
    for origin, runs in grouped(of(records, "growth"), lambda record: record["from"]).items():
        sizes = grouped(runs, lambda record: record["endpoints"])
        for size, group in sizes.items():
            rows.append([{"node": "socket, on the node", "direct": "no service, on the node", "client": "tc, from the client"}[origin], f"{size:,}", spread(column(group, "connect_p50", 1e6)),
                         spread(column(group, "connect_p99", 1e6)), str(sum(column(group, "failed")) + sum(column(group, "misrouted")))])
    for (origin, size), group in grouped(of(records, "call"), lambda record: (record["from"], record["endpoints"])).items():
        rows.append(["the call connect() of a UDP socket" + (", no service" if origin == "direct" else ""), f"{size:,}", spread(column(group, "call_p50", 1e-3)), spread(column(group, "call_p99", 1e-3)), "–"])
    return ("## Growth of a connect\n\nMicroseconds of one TCP connection at a time, two services of one agent in turn.\n\n" +
            table(["by", "endpoints", "median", "99 %", "failed"], rows)) if rows else ""


def programs(records, directory):
    texts = []
    for name in dict.fromkeys(record["table"] for record in records if "table" in record):
        if (directory / name).exists():
            texts.append(f"## bench_{name.removesuffix('.md')}\n\n" + (directory / name).read_text(encoding="utf-8"))
    return "\n".join(texts)


def skipped(records):
    rows = [[record["part"], record["skipped"]] for record in records if "skipped" in record]
    return "## Not measured\n\n" + table(["part", "why"], rows) if rows else ""


def bars(directory, name, title, unit, values):
    """A horizontal bar for each label, with the whole range of what was measured as its error."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    labels = [label for label in values if values[label]]
    if not labels:
        return ""
    middles = [statistics.median(values[label]) for label in labels]
    errors = [[middle - min(values[label]) for label, middle in zip(labels, middles)],
              [max(values[label]) - middle for label, middle in zip(labels, middles)]]
    figure, axes = pyplot.subplots(figsize=(8, 0.4 * len(labels) + 1.4))
    axes.barh(labels, middles, xerr=errors, color="#3b6ea5", capsize=3)
    axes.set_xscale("log" if max(middles) > 50 * max(min(middles), 1e-9) else "linear")
    axes.invert_yaxis()
    axes.set_title(title)
    axes.set_xlabel(unit)
    figure.tight_layout()
    for suffix in ("svg", "png"):
        figure.savefig(directory / f"{name}.{suffix}")
    pyplot.close(figure)
    return f"![{title}]({name}.svg)\n"


def plots(records, directory):
    def drawn(name, title, unit, part, label, field, factor=1.0):
        groups = grouped(of(records, part), label)
        return bars(directory, name, title, unit, {key: column(group, field, factor) for key, group in groups.items()})

    return "\n".join([
        drawn("connect", "Mean time to connect, by hey", "ms", "workload", lambda record: record["label"], "connect_mean", 1e3),
        drawn("rate", "Requests a second, by hey", "1/s", "workload", lambda record: record["label"], "per_second"),
        drawn("updates", "Time to effect", "ms", "updates", lambda record: f"{record['size']}, {record['what']}, {record['peer']}", "seconds", 1e3),
        drawn("processor", "Processor time", "ms", "updates", lambda record: f"{record['size']}, {record['what']}, {record['peer']}", "processor", 1e3),
        drawn("packets", "Packets of established flows", "thousands/s", "packets",
              lambda record: f"{record['sender']}, {record['protocol']}, {record['flows']:,} flows, {record['path']}", "received", 1e-3),
        drawn("connections", "Connections a second", "1/s", "connections", lambda record: f"from {record['from']}, {record['path']}", "per_second"),
        drawn("growth", "Time to connect", "µs", "growth", lambda record: f"from {record['from']}, {record['endpoints']:,} endpoints", "connect_p50", 1e6)])


def main():
    directory = pathlib.Path(sys.argv[1])
    records = read(directory)
    (directory / "results.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    sections = ["# Sluice, measured\n", environment(records), reached(records), workload(records), updates(records), cost(records), packets(records),
                connections(records), growth(records), plots(records, directory), programs(records, directory), skipped(records)]
    (directory / "results.md").write_text("\n".join(section for section in sections if section), encoding="utf-8")
    print(reached(records))


main()
