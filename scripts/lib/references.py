# SPDX-License-Identifier: Apache-2.0
"""Generates the references in docs/ from the program: options (from --help), metrics (from the registered families), outcomes (from the list
that the programs are compiled from) and maps (from BTF of bpf/lb.o beside SLUICE, against which the names in LAYOUT.md's samples are
checked, too). usage: references.py [--write] SLUICE

Fails if a page differs from the program, and says what to do; --write regenerates the pages. Fails, too, if --help has more
lines of over 100 columns than LONG_HELP."""

import difflib
import pathlib
import re
import subprocess
import sys

import map_reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = "<!-- Made by scripts/lib/references.py --write build/sluice. Change the program instead. -->\n"
HELP_WIDTH = 100
LONG_HELP = 124  # lower it with each text that is wrapped
ACTIONS = {
    "PASS": "untouched, passed to the next program or the stack",
    "STACK": "rewritten, passed to the stack",
    "REDIRECT": "rewritten and sent out of a device by us",
    "ANSWER": "dropped, and the sender gets an ICMP error or a TCP reset",
    "DROP": "dropped",
    "CALL": "the outcome of a socket call",
    "EVENT": "counted in addition to the packet's own outcome",
}
LITERALS = r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*'


def joined(literals):
    """The concatenated text of adjacent C string literals."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def help_of(sluice, *command):
    return subprocess.run([sluice, *command, "--help"], capture_output=True, text=True, check=True).stdout.rstrip()


def long_help(sluice):
    """The number of lines of all --help texts that are too long."""
    commands = ["", *re.findall(r"^## `sluice (\w+)`$", (ROOT / "docs/options.md").read_text(), re.M)]
    texts = [help_of(sluice, *command.split()) for command in commands]
    return sum(len(line) > HELP_WIDTH for text in texts for line in text.splitlines())


def options_of(text):
    """[(names, default, meaning)] of the output of --help, in the layout of any version of CLI11."""
    found = []
    for line in text.splitlines():
        option = re.match(r" {1,4}(-\S+)(.*)", line)
        if option:
            # A long name has its meaning in the next lines.
            rest = re.sub(r"^ Needs:(?: -\S+)+", "  ", option.group(2))
            shape, _, meaning = rest.partition("  ") if "  " in rest else (rest, "", "")
            default = re.search(r"=(\S+)$|\[([^\s\]]+)\]$", shape.strip())
            found.append([option.group(1), next(filter(None, default.groups())) if default else "", meaning.strip()])
        elif re.match(r" {8,}\S", line) and found:
            found[-1][2] += " " + line.strip()
        elif line.strip():
            if re.match(r"Examples:|\S.*[.:]$", line) and found:
                break
    return [(names, default, meaning.strip().replace("|", "\\|")) for names, default, meaning in found]


def options_page(sluice):
    top = help_of(sluice)
    section = top[re.search("subcommands:", top, re.I).end():top.index("Examples:")]
    commands = re.findall(r"^ {1,4}(\w+) {2,}(.*)", section, re.M)
    parts = ["# Commands and options\n\n" + MADE + "\n`sluice COMMAND --help` says the same, with examples.\n"]
    agents = options_of(help_of(sluice, "agent"))
    for command, what in commands:
        options = options_of(help_of(sluice, command))
        note = ""
        if command == "check":
            options, note = [option for option in options if option not in agents], "Takes the options of `sluice agent`, and:\n\n"
        rows = "".join(f"| `{names}` | {f'`{default}`' if default else ''} | {meaning} |\n" for names, default, meaning in options
                       if "--help" not in names)
        parts.append(f"## `sluice {command}`\n\n{what}.\n\n{note}| option | default | meaning |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def metrics():
    """[(name, type, help)] of every metric family, sorted."""
    found = {}
    text = "".join((ROOT / f"agent/observe/{name}.cpp").read_text() for name in ("metrics", "snapshot_metrics"))
    for match in re.finditer(r'"((?:sluice|kubeproxy|rest_client|process|kubernetes)_[a-z0-9_]+)"[\s,.)]*(?:Help\()?\s*(' + LITERALS + ")?",
                             text):
        name, literals = match.groups()
        before, after = text[max(0, match.start() - 90):match.start()], text[match.end():match.end() + 90]
        kinds = re.findall(r"Build(Counter|Gauge|Histogram)\(|(histogram|gauge)_by_family|\b(gauge)s\(|\b(single|fill_family)\(", before)
        if kinds:
            kind = next(filter(None, kinds[-1])).lower().replace("single", "gauge").replace("fill_family", "gauge")
        else:
            kind = re.search(r"MetricType::(\w+)", after).group(1).lower()
        help_text = joined(literals or "") or "Outcomes of packets and socket calls, by outcome and action: see [outcomes](outcomes.md)"
        found[name] = (kind, help_text)
    return [(name, *rest) for name, rest in sorted(found.items())]


def metrics_page():
    rows = "".join(f"| `{name}` | {kind} | {help_text} |\n" for name, kind, help_text in metrics())
    alone = "".join(f"| `{name}` | gauge | {help_text} |\n" for name, help_text in textfile_metrics())
    return ("# Metrics\n\n" + MADE + "\nServed at `/metrics` (`--metrics`, 127.0.0.1:10249). Those that begin with `kubeproxy_` mean what kube-proxy's do.\n\n"
            "| metric | type | meaning |\n|---|---|---|\n" + rows +
            "\nWritten by `sluice alive --textfile FILE` for node_exporter's textfile collector, whether or not an agent runs; the\nlabel `pins` is its "
            "directory.\n\n| metric | type | meaning |\n|---|---|---|\n" + alone)


def textfile_metrics():
    """[(name, help)] of the metrics that `sluice alive --textfile` writes."""
    text = (ROOT / "agent/commands/alive.cpp").read_text()
    found = [(name, joined(help_text)) for name, help_text in re.findall(r'Family \w+ = \{\s*"(\w+)",\s*(' + LITERALS + r")\s*,?\s*\}", text)]
    if len(found) != text.count("constexpr Family "):
        sys.exit(f"references.py: {len(found)} families of agent/commands/alive.cpp are understood, not all")
    return found


def outcomes():
    """[(name, action, meaning)] in the order of the list."""
    text = (ROOT / "maps/abi/outcomes.h").read_text()
    body = text[text.index("#define LB_OUTCOMES"):].replace("\\\n", "\n")
    return [(name, action, joined(meaning)) for name, action, meaning in re.findall(r"X\((\w+),\s*(\w+),\s*(" + LITERALS + r")\)", body)]


def outcomes_page():
    actions = "".join(f"| {name} | {meaning} |\n" for name, meaning in ACTIONS.items())
    rows = "".join(f"| `{name}` | {action} | {meaning} |\n" for name, action, meaning in outcomes())
    return ("# Outcomes\n\n" + MADE + "\nEvery packet and every socket call that our programs see is counted under one outcome, in `lb_stats`, `sluice status`\n"
            "and `sluice_outcomes_total`.\n\n| action | what happens to the packet |\n|---|---|\n" + actions +
            "\n| outcome | action | meaning |\n|---|---|---|\n" + rows)


def bad_samples(path):
    """Names in the samples of LAYOUT.md that no dump can contain."""
    known = map_reference.names(path) | {"key"}
    samples = "".join(re.findall(r"^    .*\n", (ROOT / "maps/abi/LAYOUT.md").read_text(), re.M))
    return sorted(set(re.findall(r'"(\w+)":', samples) + re.findall(r'"(LB_\w+)"', samples)) - known)


def main():
    write, sluice = "--write" in sys.argv, pathlib.Path(sys.argv[-1]).resolve()
    pages = {"options": options_page(sluice), "metrics": metrics_page(), "outcomes": outcomes_page(),
             "maps": map_reference.maps_page(sluice.parent / "bpf/lb.o", MADE)}
    samples = bad_samples(sluice.parent / "bpf/lb.o")
    wrong = 1 if samples else 0
    if samples:
        print(f"maps/abi/LAYOUT.md: its samples have names that no map has: {', '.join(samples)}")
    for name, text in pages.items():
        path = ROOT / "docs" / f"{name}.md"
        if write:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong = 1
            old = path.read_text() if path.exists() else ""
            print(f"docs/{name}.md differs from the program; run: scripts/lib/references.py --write build/sluice")
            print("\n".join(list(difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=0))[:20]))
    wide = long_help(sluice)
    if wide > LONG_HELP:
        wrong = 1
        print(f"--help has {wide} lines of over {HELP_WIDTH} columns, and had {LONG_HELP}: wrap the new text")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
