# SPDX-License-Identifier: Apache-2.0
"""Makes the report of the results of bench/run: results.json, results.md, and plots as SVG and PNG. usage: report.py DIRECTORY

Figures are medians, followed by the smallest and the largest value. The report lists skipped parts with their reasons. Exit code 1: an
answer was wrong or missing. Without matplotlib there are no plots, and the report says so."""

import dataclasses
import json
import pathlib
import sys

import goals
import plots
import tables
from results import TRAFFIC, WRONG, grouped, incorrect, of, read, table, wrong

STOLEN = 0.05  # a share of stolen time above which figures are doubtful


def environment(records):
    """The environments of all runs that added to these results, one line for each key."""
    found = of(records, "environment")
    keys = dict.fromkeys(key for record in found for key in record if key not in ("part", "run"))
    return "\n".join(f"- {key}: {', '.join(dict.fromkeys(str(record.get(key, '–')) for record in found))}" for key in keys) + "\n"


def warnings(records):
    """The warnings at the top of the report."""
    lines = incorrect_lines(records)
    states = of(records, "state")
    for title, doubtful in (("other processes used the processors", [state for state in states if state.get("busy")]),
                            (f"the hypervisor took more than {STOLEN:.0%} of the time", [state for state in states if state.get("steal", 0) > STOLEN])):
        if doubtful:
            lines.append(f"**WARNING**: {title} during {', '.join(dict.fromkeys(state['of'] for state in doubtful))}: these figures are doubtful\n")
    if not plots.available():
        lines.append("No plots: /usr/bin/python3 has no matplotlib.\n")
    return "\n".join(lines)


def incorrect_lines(records):
    return [f"**INCORRECT**: {message}\n" for message in incorrect(records)]


def state(records):
    rows = [[record["of"], str(record.get("load_before", "–")), str(record.get("load_after", "–")),
             f"{record['steal']:.1%}" if "steal" in record else "–", str(record.get("busy_before", "–")), str(record.get("seconds", "–"))]
            for record in of(records, "state")]
    return ("## State of the machine\n\nLoad average, share of all processors' time that the hypervisor gave to others, processors that other "
            "processes used just before, and duration of the part.\n\n" +
            table(["part", "load before", "load after", "stolen", "busy before", "seconds"], rows)) if rows else ""


def correctness(records):
    rows = [[part] + ["not counted" if value is None else f"{value:,.0f}" for value in counts.values()] for part, counts in wrong(records).items()]
    if not rows:
        return ""
    lines = incorrect_lines(records)
    return ("## Correctness\n\nFor all parts with traffic: requests without an answer, connections that were reset or ended early, and answers from an "
            "address that is not an endpoint.\n\n" + table(["part", *WRONG], rows) + "\n" + "\n".join(lines or [verdict(records)]))


def verdict(records):
    """The verdict if no error was counted, with the parts that do not count errors."""
    blind = [part for part, counts in wrong(records).items() if part in TRAFFIC and all(value is None for value in counts.values())]
    return "No errors" + (f" in the parts that count them; {', '.join(blind)} did not" if blind else "") + ".\n"


def reached(records):
    runs = len(of(records, "environment"))
    rows = [[goal.title, "–" if found is None else found.text(), f"{goal.sign} {goal.wanted:g}",
             "not measured" if found is None else "reached" if goal.reached(found.value) else "MISSED"]
            for goal in goals.GOALS for found in [goal.found(records)]]
    return (f"## Goals\n\nRatios of the medians of {'this run' if runs <= 1 else f'these {runs} runs'}, in brackets those of single rounds.\n\n" +
            table(["", "measured", "goal", ""], rows))


def programs(records, directory):
    """The tables that the programs printed, each with a note if the program failed or missed a goal."""
    texts = []
    for (part, name), ends in grouped([record for record in records if "table" in record], "part", "table").items():
        text = f"## {part}\n\n"
        if len(ends) > 1:
            text += f"The last of {len(ends)} runs.\n\n"
        if (directory / name).exists():
            text += (directory / name).read_text(encoding="utf-8")
        if ends[-1].get("exit") == 3:
            text += "\nA goal was MISSED; the table shows which.\n"
        elif ends[-1].get("exit"):
            text += f"\nFAILED with exit code {ends[-1]['exit']}: the table contains the figures up to the failure.\n"
        texts.append(text)
    return "\n".join(texts)


def skipped(records):
    rows = [[record["part"], record["skipped"]] for record in records if "skipped" in record]
    return "## Not measured\n\n" + table(["part", "why"], rows) if rows else ""


def results(records):
    """The content of results.json: all records, and the conclusions of the report."""
    found = [(goal, goal.found(records)) for goal in goals.GOALS]
    return {"correctness": wrong(records), "incorrect": incorrect(records),
            "goals": [{"title": goal.title, "sign": goal.sign, "wanted": goal.wanted} |
                      ({} if it is None else dataclasses.asdict(it) | {"reached": goal.reached(it.value)}) for goal, it in found],
            "records": records}


def main():
    directory = pathlib.Path(sys.argv[1])
    records = read(directory)
    (directory / "results.json").write_text(json.dumps(results(records), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    parts = [function(records) for function in (tables.workload, tables.rules, tables.updates, tables.cost, tables.packets,
                                                tables.forwarding, tables.connections, tables.bulk, tables.growth)]
    sections = ["# Sluice, measured\n", warnings(records), environment(records), correctness(records), reached(records), *parts,
                programs(records, directory), plots.all_of(records, directory), state(records), skipped(records)]
    (directory / "results.md").write_text("\n".join(section for section in sections if section), encoding="utf-8")
    print(reached(records))
    return 1 if incorrect(records) else 0


sys.exit(main())
