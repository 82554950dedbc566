# SPDX-License-Identifier: Apache-2.0
"""The report's plots, as SVG and PNG: bars, or lines for values that depend on a size. They show medians, with the range of all values as
error bars.

Without matplotlib there are no plots. A value here is a triple of least, median and most."""

import importlib.util
import itertools
import re
import statistics

from results import PEERS, PUBLISHED, PUBLISHED_ENDPOINTS, column, grouped, of, rows_of

WIDE = 50  # a range with a larger ratio of its ends is drawn on a logarithmic axis
MANY_LINES, MANY_BARS = 10, 30  # if there are more, there is a plot for each first word of their names

# The bar plots of the parts' records: file, title, unit, part, the fields that name a bar, the field drawn, its factor.
BARS = [
    ("connect", "Mean time to connect, by hey", "ms", "workload", ("endpoints", "label"), "connect_mean", 1e3),
    ("connect-p99", "Time to connect, 99 %, by hey", "ms", "workload", ("endpoints", "label"), "connect_p99", 1e3),
    ("response", "Mean time to response, by hey", "ms", "workload", ("endpoints", "label"), "response_mean", 1e3),
    ("response-p99", "Time to response, 99 %, by hey", "ms", "workload", ("endpoints", "label"), "response_p99", 1e3),
    ("rate", "Requests a second, by hey", "1/s", "workload", ("endpoints", "label"), "per_second", 1),
    ("rules", "Lines of rules", "lines", "rules", ("endpoints", "peer"), "lines", 1),
    ("synchronisation", "First synchronisation of all rules", "s", "rules", ("endpoints", "peer"), "start", 1),
    ("updates", "Time to effect", "ms", "updates", ("size", "what", "peer"), "seconds", 1e3),
    ("seen", "Time to effect, as a client sees it", "ms", "updates", ("size", "what", "peer"), "seen", 1e3),
    ("answered", "Until the API server has answered", "ms", "updates", ("size", "what", "peer"), "answered", 1e3),
    ("processor", "Processor time", "ms", "updates", ("size", "what", "peer"), "processor", 1e3),
    ("memory", "Resident memory", "MB", "updates", ("size", "what", "peer"), "resident", 1e-6),
    ("memory-peak", "Resident memory, peak", "MB", "updates", ("size", "what", "peer"), "resident_most", 1e-6),
    ("calls", "System calls", "calls", "updates", ("size", "what", "peer"), "calls", 1),
    ("cost-bytes", "From the API server to one agent", "MB", "cost", ("size", "what", "peer", "nodes", "extrapolated"), "from_server", 1e-6),
    ("cost-events", "Watch events of the API server", "events", "cost", ("size", "what", "peer", "nodes", "extrapolated"), "events", 1),
    ("cost-processor", "The API server's processor time", "ms", "cost", ("size", "what", "peer", "nodes", "extrapolated"), "processor", 1e3),
    ("packets", "Packets of established flows", "thousands/s", "packets", ("sender", "protocol", "flows", "path"), "received", 1e-3),
    ("connections", "Connections a second", "1/s", "connections", ("endpoints", "from", "path"), "per_second", 1),
    ("connections-p99", "Time to connect, 99 %", "ms", "connections", ("endpoints", "from", "path"), "connect_p99", 1e3),
    ("bulk", "One connection's throughput", "Gbit/s", "bulk", ("from", "path"), "gigabits", 1),
]
# The plots with published figures, by file: field and factor.
BESIDE = {"response": ("response_mean", 1e3), "rate": ("per_second", 1), "rules": ("lines", 1), "synchronisation": ("start", 1)}
# The line plots: file, title, unit, part, the field that grows, the field that names a line, the field drawn, its factor.
LINES = [
    ("growth-connect", "Time to connect, median", "µs", "growth", "endpoints", "from", "connect_p50", 1e6),
    ("growth-connect-p99", "Time to connect, 99 %", "µs", "growth", "endpoints", "from", "connect_p99", 1e6),
    ("growth-call", "The call connect() of a UDP socket, median", "µs", "call", "endpoints", "from", "call_p50", 1e-3),
]


def available():
    return importlib.util.find_spec("matplotlib") is not None


def drawing():
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot


def triple(values):
    return min(values), statistics.median(values), max(values)


def scale_of(values):
    """The scale of an axis: logarithmic if a linear axis could not show the small values."""
    return "log" if min(values) > 0 and max(values) > WIDE * min(values) else "linear"


def errors(triples):
    return [[middle - least for least, middle, _ in triples], [most - middle for _, middle, most in triples]]


def save(pyplot, figure, directory, name, title):
    for suffix in ("svg", "png"):
        figure.savefig(directory / f"{name}.{suffix}", bbox_inches="tight")
    pyplot.close(figure)
    return f"![{title}]({name}.svg)\n"


def colour(label):
    if label.startswith("published"):
        return "#b8b8b8"
    if "kube-proxy" in label or "tables" in label:
        return "#d98032"
    return "#3b6ea5" if "sluice" in label.lower() else "#6f8f72"


def bars(directory, name, title, unit, values):
    """Draws a horizontal bar for each label; values that were not measured are hatched."""
    if not values:
        return ""
    pyplot = drawing()
    figure, axes = pyplot.subplots(figsize=(8, 0.4 * len(values) + 1.4))
    drawn = axes.barh(list(values), [middle for _, middle, _ in values.values()], xerr=errors(values.values()),
                      color=[colour(label) for label in values], capsize=3)
    for label, bar in zip(values, drawn):
        if label.startswith("published") or "extrapolated" in label:
            bar.set_hatch("//")
    axes.set_xscale(scale_of([middle for _, middle, _ in values.values()]))
    axes.invert_yaxis()
    axes.set_title(title)
    axes.set_xlabel(unit)
    return save(pyplot, figure, directory, name, title)


def lines(directory, name, title, axis, unit, series):
    """Draws a line for each of the series, which are triples by size; values that were not measured are dashed."""
    if not series:
        return ""
    pyplot = drawing()
    figure, axes = pyplot.subplots(figsize=(8, max(5, 0.25 * len(series))))
    for (label, points), mark in zip(series.items(), itertools.cycle("os^vDx*")):
        sizes = sorted(points)
        triples = [points[size] for size in sizes]
        axes.errorbar(sizes, [middle for _, middle, _ in triples], yerr=errors(triples), label=label, marker=mark, markersize=4, capsize=3,
                      linestyle="--" if "extrapolated" in label else "-")
    axes.set_xscale(scale_of([size for points in series.values() for size in points]))
    middles = [middle for points in series.values() for _, middle, _ in points.values()]
    axes.set_yscale(scale_of(middles))
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=min(0, *middles))
    axes.set_title(title)
    axes.set_xlabel(axis)
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return save(pyplot, figure, directory, name, title)


def word(name, value):
    """The part of a bar's label for one of its fields."""
    if name == "extrapolated":
        return "extrapolated" if value else ""
    if value is None:
        return ""
    if name in ("endpoints", "flows", "nodes"):
        return f"{value:,} {name}"
    return f"from {value}" if name == "from" else PEERS.get(value, value) if name == "peer" else str(value)


def label_of(names, key):
    return ", ".join(filter(None, map(word, names, key)))


def published(name):
    """The bars of published figures for that plot."""
    field, factor = BESIDE.get(name, (None, 1))
    return {f"published, {peer}, {PUBLISHED_ENDPOINTS:,} endpoints": (value, value, value)
            for peer, figures in PUBLISHED.items() if field in figures for value in [figures[field] * factor]}


def update_beside(records, directory):
    """Plots the change of one endpoint of one service beside the published figures."""
    found = [record for record in of(records, "updates") if record.get("what") == "one endpoint" and str(record.get("size", "")).startswith("1x")]
    values = {f"{int(size[2:]):,} endpoints, {PEERS.get(peer, peer)}": triple(column(group, "seconds"))
              for (size, peer), group in grouped(found, "size", "peer").items() if column(group, "seconds")}
    figures = {f"published, {peer}, {PUBLISHED_ENDPOINTS:,} endpoints": (known["update"],) * 3 for peer, known in PUBLISHED.items()}
    return bars(directory, "update-beside-published", "One endpoint changed, time to effect", "s", values | figures) if values else ""


def own_bars(records, directory):
    """Plots the records of each part as bars."""
    for name, title, unit, part, names, field, factor in BARS:
        # A negative figure is a difference whose sign is due to chance.
        groups = grouped([record for record in of(records, part) if not record.get("extrapolated") or record.get(field, 0) > 0], *names)
        values = {label_of(names, key): triple(column(group, field, factor)) for key, group in groups.items() if column(group, field)}
        yield bars(directory, name, title, unit, values | published(name)) if values else ""


def own_lines(records, directory):
    """Plots the records of each part that depend on a size as lines."""
    for name, title, unit, part, axis, line, field, factor in LINES:
        series = {}
        for (label, size), group in grouped(of(records, part), line, axis).items():
            if size is not None and column(group, field):
                series.setdefault(f"from {label}", {})[size] = triple(column(group, field, factor))
        yield lines(directory, name, title, axis, unit, series)


def point(rows):
    """The triple of the same row of several runs."""
    least, most = (column(rows, name) + column(rows, "value") for name in ("least", "most"))
    return min(least), statistics.median(column(rows, "value")), max(most)


def file_name(*words):
    return re.sub(r"[^a-z0-9]+", "-", " ".join(word.replace("µ", "u").replace("%", "percent").replace("/", " per ") for word in words).lower()).strip("-")


def split(series, most):
    """Splits the series by the first part of their names if there are too many for one plot."""
    if len(series) <= most:
        return {"": series}
    parts = {}
    for label, points in series.items():
        parts.setdefault(label.split(",")[0], {})[label] = points
    return parts


def of_rows(records, directory, part):
    """Plots the rows of a part's programs, by dimension and unit: series of several sizes as lines, all others as bars."""
    for (axis, unit), rows in grouped(rows_of(records, part), "by", "unit").items():
        series, single = {}, {}
        for (label,), group in grouped(rows, "series").items():
            points = {size: point(same) for (size,), same in grouped(group, "size").items()}
            if len(points) > 1 and None not in points:
                series[label] = points
            else:
                single |= {label if size is None else f"{label}, {size:,} {axis or ''}".strip(): value for size, value in points.items()}
        title = f"{part}, by {axis}" if axis else part
        for first, some in split(series, MANY_LINES).items():
            yield lines(directory, file_name(part, axis or "", unit or "", first), f"{title}: {first}" if first else title, axis or "size", unit or "", some)
        for first, some in split(single, MANY_BARS).items():
            yield bars(directory, file_name(part, axis or "", unit or "", first, "bars"), f"{title}: {first}" if first else title, unit or "", some)


def all_of(records, directory):
    if not available():
        return ""
    parts = dict.fromkeys(record["part"] for record in records if "series" in record)
    texts = [*own_bars(records, directory), update_beside(records, directory), *own_lines(records, directory),
             *(text for part in parts for text in of_rows(records, directory, part))]
    return "## Plots\n\n" + "\n".join(text for text in texts if text) if any(texts) else ""
