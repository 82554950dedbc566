"""Makes the report of what bench/run has measured: results.json, results.md, and plots as SVG and PNG. usage: report.py DIRECTORY

Medians, with the smallest and the largest value behind them. What was skipped is in the report with its reason. Exit code 1: an answer
was wrong or missing. Without matplotlib there are no plots, which the report then says."""

import dataclasses
import json
import pathlib
import sys

import goals
import plots
import tables
from results import TRAFFIC, WRONG, grouped, incorrect, of, read, table, wrong

STOLEN = 0.05  # a share of the time that makes figures doubtful


def environment(records):
    """Of each run that added to these results."""
    found = of(records, "environment")
    keys = dict.fromkeys(key for record in found for key in record if key not in ("part", "run"))
    return "\n".join(f"- {key}: {', '.join(dict.fromkeys(str(record.get(key, '–')) for record in found))}" for key in keys) + "\n"


def warnings(records):
    """What stands above everything else."""
    lines = incorrect_lines(records)
    states = of(records, "state")
    for title, doubtful in (("the machine was busy with something else", [state for state in states if state.get("busy")]),
                            (f"the hypervisor took more than {STOLEN:.0%} of the time", [state for state in states if state.get("steal", 0) > STOLEN])):
        if doubtful:
            lines.append(f"**WARNING**: {title} during {', '.join(dict.fromkeys(state['of'] for state in doubtful))}: read these figures with that in mind\n")
    if not plots.available():
        lines.append("No plots: /usr/bin/python3 has no matplotlib.\n")
    return "\n".join(lines)


def incorrect_lines(records):
    return [f"**INCORRECT**: {sentence}\n" for sentence in incorrect(records)]


def state(records):
    rows = [[record["of"], str(record.get("load_before", "–")), str(record.get("load_after", "–")),
             f"{record['steal']:.1%}" if "steal" in record else "–", str(record.get("busy_before", "–")), str(record.get("seconds", "–"))]
            for record in of(records, "state")]
    return ("## The machine meanwhile\n\nLoad average, share of all processors' time that the hypervisor gave to others, processors that something "
            "else kept busy just before, and how long the part took.\n\n" +
            table(["part", "load before", "load after", "stolen", "busy before", "seconds"], rows)) if rows else ""


def correctness(records):
    rows = [[part] + ["not counted" if value is None else f"{value:,.0f}" for value in counts.values()] for part, counts in wrong(records).items()]
    if not rows:
        return ""
    lines = incorrect_lines(records)
    return ("## Correctness\n\nOf all parts with traffic: requests without an answer, connections reset or cut short, and answers by somebody who "
            "was no endpoint.\n\n" + table(["part", *WRONG], rows) + "\n" + "\n".join(lines or [verdict(records)]))


def verdict(records):
    """Where nothing was wrong: how much that says."""
    blind = [part for part, counts in wrong(records).items() if part in TRAFFIC and all(value is None for value in counts.values())]
    return "Nothing was wrong" + (f" where somebody counted, which is not so in {', '.join(blind)}" if blind else "") + ".\n"


def reached(records):
    runs = len(of(records, "environment"))
    rows = [[goal.title, "–" if found is None else found.text(), f"{goal.sign} {goal.wanted:g}",
             "not measured" if found is None else "reached" if goal.reached(found.value) else "MISSED"]
            for goal in goals.GOALS for found in [goal.found(records)]]
    return (f"## Figures to reach\n\nRatios of the medians of {'this run' if runs <= 1 else f'these {runs} runs'}, in brackets of single rounds.\n\n" +
            table(["", "found", "wanted", ""], rows))


def programs(records, directory):
    """What they printed, each with how it ended and with plots of its rows."""
    texts = []
    for (part, name), ends in grouped([record for record in records if "table" in record], "part", "table").items():
        text = f"## {part}\n\n"
        if len(ends) > 1:
            text += f"The last of {len(ends)} runs.\n\n"
        if (directory / name).exists():
            text += (directory / name).read_text(encoding="utf-8")
        if ends[-1].get("exit") == 3:
            text += "\nA figure wished for was MISSED; the table says which.\n"
        elif ends[-1].get("exit"):
            text += f"\nFAILED with exit code {ends[-1]['exit']}: the figures are those until then.\n"
        texts.append(text)
    return "\n".join(texts)


def skipped(records):
    rows = [[record["part"], record["skipped"]] for record in records if "skipped" in record]
    return "## Not measured\n\n" + table(["part", "why"], rows) if rows else ""


def results(records):
    """As JSON: all records, and what the report concludes of them."""
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
