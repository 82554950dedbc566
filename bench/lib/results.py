# SPDX-License-Identifier: Apache-2.0
"""Selects, groups and formats the records of one or several runs, for report.py, tables.py and plots.py. The fields of the records are
those that measure.py and the programs in bench/ write."""

import collections
import json
import statistics

# Published at KubeCon EU 2020 for the same workload at 4,002 nodes, in seconds; shown for orientation, not to be compared by
# ratio.
PUBLISHED = {"iptables": {"response_mean": 0.88, "per_second": 248.7, "update": 25, "lines": 401964, "start": 16},
             "IPVS": {"response_mean": 1.75, "per_second": 248.3, "update": 5}}
PUBLISHED_ENDPOINTS = 100000
# The name of a path in a table.
PATHS = {"plain": "plain routing", "direct": "direct, routed", "nftables": "kube-proxy nftables",
         "nftables-1.36": "kube-proxy 1.36 nftables", "iptables": "kube-proxy iptables",
         "sluice": "Sluice, tc", "sluice-stack": "Sluice, tc, --forwarding stack", "sluice-xdp": "Sluice, XDP"}
# The name of an agent in a table.
PEERS = PATHS | {"sluice": "Sluice", "nobody": "no agent"}
# Parts with traffic must have counted errors.
TRAFFIC = ("workload", "updates", "packets", "connections", "bulk", "growth")
WRONG = ("failed", "reset", "misrouted")


def read(directory):
    """All records, each with the number of the run that wrote it; a run begins with the record of its environment."""
    run, records = 0, []
    with open(directory / "records.jsonl", encoding="utf-8") as lines:
        for at, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
            except ValueError:  # the program was ended while it wrote
                record = {"part": "records", "skipped": f"line {at} of records.jsonl is incomplete: {line.strip()[:80]}"}
            run += record["part"] == "environment"
            records.append(record | {"run": run})
    return records


def of(records, part):
    """The measurements of a part, without records of skipped measurements and rows of a program's table."""
    return [record for record in records if record["part"] == part and not {"skipped", "table", "series"} & record.keys()]


def rows_of(records, part):
    """The rows of the tables of the part's programs."""
    return [record for record in records if record["part"] == part and "series" in record and record.get("value") is not None]


def grouped(records, *names):
    """The records by the values of these fields, in order of appearance; the value is None if a record has no such field."""
    groups = collections.defaultdict(list)
    for record in records:
        groups[tuple(record.get(name) for name in names)].append(record)
    return groups


def column(records, name, factor=1.0):
    return [record[name] * factor for record in records if record.get(name) is not None]


def number(value):
    """The number as text, with four significant digits and no exponent."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def spread(values):
    """The median and the extremes as text."""
    if not values:
        return "–"
    middle, least, most = (number(each) for each in (statistics.median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least}–{most})"


def total(records, name):
    """The sum of a count as text; a dash if no record has it."""
    values = column(records, name)
    return f"{sum(values):,.0f}" if values else "–"


def count(value):
    return "–" if value is None else f"{value:,}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]) + "\n"


def wrong(records):
    """For each part with traffic, the number of errors of each kind; None if no record counts them."""
    found = {}
    for part in dict.fromkeys(record["part"] for record in records):
        counts = {name: sum(values) if (values := column([record for record in records if record["part"] == part], name)) else None for name in WRONG}
        if (part in TRAFFIC and of(records, part)) or any(value is not None for value in counts.values()):
            found[part] = counts
    return found


def subject(record):
    """The fields that identify the subject of a measurement, as text."""
    return ", ".join(str(record[name]) for name in ("series", "label", "size", "what", "peer", "sender", "protocol", "from", "path") if name in record)


def incorrect(records):
    """A message for each part with a wrong or missing answer, with the measurements that it affects."""
    messages = []
    for part, counts in wrong(records).items():
        if any(counts.values()):
            sums = ", ".join(f"{value:,.0f} {name}" for name, value in counts.items() if value)
            affected = dict.fromkeys(subject(record) for record in records if record["part"] == part and any(record.get(name) for name in WRONG))
            messages.append(f"{part}: {sums} ({' / '.join(filter(None, affected)) or 'of all'})")
    return messages
