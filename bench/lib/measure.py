"""What bench/lib/parts measures with, one command each; what it finds is one JSON object a line on standard output.

usage: measure.py record PART KEY=VALUE...
       measure.py add PART KEY=VALUE...        the same with the fields of standard input's JSON object
       measure.py say                          standard input's records in words
       measure.py fill SIZE [NODE_PORT POLICY [PROTOCOL...]]   objects behind the API server; SIZE is SERVICESxENDPOINTS
       measure.py manifests DIRECTORY ENDPOINTS...     the same as files: one service for each number, with TCP and UDP
       measure.py programmed SECONDS           waits until the agent has programmed all, and is idle
       measure.py start SIZE SEEN              what its start took
       measure.py changes SIZE NETNS SEEN ENDPOINTS SLICES ROLLING RATE      what so many changes took
       measure.py count NODE                   counts bytes between that address and the API server from here on
       measure.py server PID                   what the API server has spent so far
       measure.py served PID SIZE FILE         what it has spent since that was written to FILE, on an agent's start
       measure.py cost PID SIZE COUNT RATE     what it spends on so many changes
       measure.py load LABEL REQUESTS ENDPOINTS CSV HITS       what hey and the server wrote
Times are seconds, memory is bytes. SEEN is what `bench_connect watch` writes."""

import collections
import csv
import json
import math
import os
import pathlib
import statistics
import sys
import time


def emit(**fields):
    print(json.dumps(fields), flush=True)


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def pairs(words):
    return {key: value_of(value) for key, _, value in (word.partition("=") for word in words)}


def record(words):
    emit(part=words[0], **pairs(words[1:]))


def add(words):
    emit(part=words[0], **pairs(words[1:]), **json.loads(sys.stdin.read()))


def say(_):
    for line in sys.stdin:
        fields = json.loads(line)
        print("  " + ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                               for key, value in fields.items() if not isinstance(value, (list, dict))), flush=True)


# ---- A cluster's agent. What needs a control plane is imported where it is needed. ----

def fill(words):
    import kube
    import objects
    node_port, policy = (int(words[1]), words[2]) if len(words) > 2 else (0, "Cluster")
    objects.fill(kube.Api(), objects.Size(words[0]), node_port, policy, words[3:] or ("TCP",))


def manifests(words):
    import objects
    directory = pathlib.Path(words[0])
    for service, endpoints in enumerate(map(int, words[1:])):
        for name, thing in objects.documents(service, endpoints, ("TCP", "UDP")):
            (directory / f"{name}.json").write_text(json.dumps(thing, separators=(",", ":")), encoding="ascii")


def programmed(words):
    import agents
    agent, until = agents.Agent(), time.monotonic() + float(words[0])
    while time.monotonic() < until:
        time.sleep(0.25)
        if not agent.alive():
            sys.exit("the agent has ended")
        try:
            if agents.last_sync() > 0:
                agent.wait_idle()
                return
        except OSError:
            pass
    sys.exit("nothing was programmed in time")


def start(words):
    import changes as work
    emit(part="updates", peer=os.environ["PEER"], **work.start(*words))


def changes(words):
    """Runs beside the API server; the agent's metrics are read in its own network namespace."""
    import changes as work
    size, netns, seen, *numbers = words
    endpoints, slices, rolling, rate = map(int, numbers)
    made = work.Changes(size, netns, seen)

    def tell(found):
        emit(part="updates", peer=made.agent.name, size=size, **found)

    for _ in range(endpoints):
        tell(made.one("one endpoint", lambda: made.replace(0)))
    for _ in range(slices):
        tell(made.one("one slice", made.replace_slice))
    if rolling:
        tell(made.rolling(rolling, rate))


def count(words):
    import apiserver
    apiserver.count(words[0])


def server(words):
    import apiserver
    emit(**apiserver.Server(words[0]).figures())


def served(words):
    import apiserver
    pid, size, before = words
    found = apiserver.difference(apiserver.Server(pid).figures(), json.loads(pathlib.Path(before).read_text(encoding="ascii")))
    emit(part="cost", peer=os.environ["PEER"], what="start", size=size, **found)


def cost(words):
    import apiserver
    pid, size, number, rate = words
    emit(part="cost", peer=os.environ["PEER"], **apiserver.cost_of_changes(apiserver.Server(pid), size, int(number), float(rate)))


# ---- Load ----

def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def chi_square(hits, endpoints, requests):
    """How far the hits are from even, in standard deviations of what chance does (the statistic's normal approximation)."""
    expected = requests / endpoints
    statistic = sum((count - expected) ** 2 / expected for count in hits.values()) + (endpoints - len(hits)) * expected
    return (statistic - (endpoints - 1)) / math.sqrt(2 * (endpoints - 1))


def load(words):
    label, requests, endpoints = words[0], int(words[1]), int(words[2])
    with open(words[3], encoding="ascii") as lines:
        rows = [row for row in csv.DictReader(lines) if row["status-code"]]
    wrong = sum(row["status-code"] != "200" for row in rows) + requests - len(rows)
    connect = [float(row["DNS+dialup"]) for row in rows]
    response = [float(row["response-time"]) for row in rows]
    seconds = max(float(row["offset"]) + float(row["response-time"]) for row in rows)
    hits = collections.Counter(pathlib.Path(words[4]).read_text(encoding="ascii").split())
    fields = {"part": "workload", "label": label, "requests": requests, "failed": wrong, "per_second": len(rows) / seconds,
              "connect_mean": statistics.fmean(connect), "connect_p99": percentile(connect, 0.99),
              "response_mean": statistics.fmean(response), "response_p99": percentile(response, 0.99),
              "endpoints_hit": len(hits)}
    if "direct" not in label:
        fields["deviation"] = chi_square(hits, endpoints, sum(hits.values()))
    emit(**fields)


COMMANDS = (record, add, say, fill, manifests, programmed, start, changes, count, server, served, cost, load)
{command.__name__: command for command in COMMANDS}[sys.argv[1]](sys.argv[2:])
