"""Makes the report of a run of bench/run: results.json, results.md, and plots as SVG and PNG. usage: report.py DIRECTORY

Medians, with the smallest and the largest value behind them. What was skipped is in the report with its reason."""

import collections
import json
import pathlib
import statistics
import sys

# Published at KubeCon EU 2020 for the same workload at 4,002 nodes; to stand beside ours, not to be compared by ratio.
PUBLISHED = {"iptables": {"response_mean": 0.88, "per_second": 248.7, "update": 25}, "IPVS": {"response_mean": 1.75, "per_second": 248.3, "update": 5}}


def read(directory):
    with open(directory / "records.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def spread(values, unit=""):
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


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def environment(records):
    found = next((record for record in records if record["part"] == "environment"), {})
    return "\n".join(f"- {key}: {value}" for key, value in found.items() if key != "part") + "\n"


def workload(records):
    runs = [record for record in records if record["part"] == "workload"]
    if not runs:
        return ""
    rows = []
    for label, group in grouped(runs, lambda record: record["label"]).items():
        rows.append([label, spread(column(group, "connect_mean", 1e3)), spread(column(group, "connect_p99", 1e3)),
                     spread(column(group, "response_mean", 1e3)), spread(column(group, "response_p99", 1e3)),
                     spread(column(group, "per_second")), str(sum(column(group, "failed"))), spread(column(group, "endpoints_hit")),
                     spread(column(group, "deviation")) if column(group, "deviation") else "–"])
    published = [[f"published, {name}", "", "", f"{figures['response_mean'] * 1e3:.4g}", "", f"{figures['per_second']}", "", "", ""]
                 for name, figures in PUBLISHED.items()]
    return ("## One NodePort service with many endpoints, loaded with hey\n\nMilliseconds; every request on a connection of its own, 8 at a "
            "time. The last column says how far the hits are from even, in standard deviations of chance: within ±3 is even.\n\n" +
            table(["path", "connect, mean", "connect, 99 %", "response, mean", "response, 99 %", "requests/s", "failed", "endpoints hit",
                   "unevenness"], rows + published) + "\n" + ratios_of_workload(runs))


def ratio(over, under):
    return statistics.median(over) / statistics.median(under) if over and under else None


def ratios_of_workload(runs):
    groups = grouped(runs, lambda record: record["label"])
    rates = {label: column(group, "per_second") for label, group in groups.items()}
    wanted = [("connections/s: socket ÷ direct, on the node", "node sluice socket", "node direct", 0.97),
              ("connections/s: NodePort by XDP ÷ kube-proxy nftables", "client sluice xdp", "client kube-proxy nftables", 1.3),
              ("connections/s: NodePort by tc ÷ kube-proxy nftables", "client sluice tc", "client kube-proxy nftables", None)]
    rows = [[title, f"{value:.2f}", "–" if goal is None else f"{goal}"] for title, over, under, goal in wanted
            if (value := ratio(rates.get(over), rates.get(under))) is not None]
    return table(["ratio of medians", "found", "at least"], rows) if rows else ""


def updates(records):
    runs = [record for record in records if record["part"] == "updates" and "what" in record]
    if not runs:
        return ""
    rows = []
    for (size, what, peer), group in grouped(runs, lambda record: (record["size"], record["what"], record["peer"])).items():
        rows.append([size, what, peer, spread(column(group, "seconds", 1e3)), spread(column(group, "processor", 1e3)),
                     spread(column(group, "resident", 1 / 1e6))])
    goals = {"start": [("seconds", 2), ("resident", 6)], "one endpoint": [("seconds", 300), ("processor", 100)]}
    found = []
    for (size, what), group in grouped(runs, lambda record: (record["size"], record["what"])).items():
        peers = grouped(group, lambda record: record["peer"])
        for name, goal in goals[what]:
            theirs, ours = column(peers.get("nftables", []), name), column(peers.get("sluice", []), name)
            if theirs and ours:
                # The kernel counts ticks of 10 ms: what is too little to be seen is shown as a bound.
                mean = statistics.fmean(ours)
                bound = name == "processor" and mean * len(ours) < 0.05
                value = statistics.fmean(theirs) / max(mean, 0.01 / len(ours)) if name == "processor" else ratio(theirs, ours)
                found.append([size, f"{what}: {name}, kube-proxy nftables ÷ Sluice", f"{'more than ' if bound else ''}{value:.3g}",
                              str(goal) if size == "1x100000" else "–"])
    return ("## What a start and a change cost\n\nServices × endpoints each; milliseconds, megabytes. Time to effect is from the request to the "
            "API server to the agent's own time stamp of its last synchronisation; processor time includes children.\n\n" +
            table(["size", "what", "peer", "time", "processor time", "resident memory"], rows) + "\n" +
            table(["size", "ratio", "found", "at least"], found))


def programs(records, directory):
    texts = []
    for record in records:
        if "table" in record and (directory / record["table"]).exists():
            texts.append(f"## bench_{record['part']}\n\n" + (directory / record["table"]).read_text(encoding="utf-8"))
    return "\n".join(texts)


def skipped(records):
    rows = [[record["part"], record["skipped"]] for record in records if "skipped" in record]
    return "## Not measured\n\n" + table(["part", "why"], rows) if rows else ""


def bars(directory, name, title, unit, values):
    """A horizontal bar for each label, with the whole range of what was measured as its error."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    labels = list(values)
    middles = [statistics.median(values[label]) for label in labels]
    errors = [[middle - min(values[label]) for label, middle in zip(labels, middles)],
              [max(values[label]) - middle for label, middle in zip(labels, middles)]]
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(labels) + 1.4))
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
    pictures = []
    runs = [record for record in records if record["part"] == "workload" and "label" in record]
    if runs:
        groups = grouped(runs, lambda record: record["label"])
        pictures.append(bars(directory, "connect", "Mean time to connect", "ms", {label: column(group, "connect_mean", 1e3) for label, group in groups.items()}))
        pictures.append(bars(directory, "rate", "Connections a second", "1/s", {label: column(group, "per_second") for label, group in groups.items()}))
    runs = [record for record in records if record["part"] == "updates" and "what" in record]
    if runs:
        groups = grouped(runs, lambda record: f"{record['size']}, {record['what']}, {record['peer']}")
        pictures.append(bars(directory, "updates", "Time to effect", "ms", {label: column(group, "seconds", 1e3) for label, group in groups.items()}))
    return "\n".join(pictures)


def main():
    directory = pathlib.Path(sys.argv[1])
    records = read(directory)
    (directory / "results.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    parts = ["# Sluice, measured\n", environment(records), workload(records), updates(records), plots(records, directory),
             programs(records, directory), skipped(records)]
    (directory / "results.md").write_text("\n".join(part for part in parts if part), encoding="utf-8")


main()
