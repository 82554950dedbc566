# SPDX-License-Identifier: Apache-2.0
"""The measurements of bench/lib/parts, one command each. Results go to standard output, one JSON object per line.

usage: measure.py record PART KEY=VALUE...
       measure.py add PART KEY=VALUE...        also adds the fields of the JSON object on standard input
       measure.py say                          prints the records on standard input as text
       measure.py fill SIZE [NODE_PORT POLICY [PROTOCOL...]]   creates objects in the API server; SIZE is SERVICESxENDPOINTS
       measure.py manifests DIRECTORY ENDPOINTS...     the same as files: one service for each number, with TCP and UDP
       measure.py programmed SECONDS           waits until the agent has programmed everything and is idle
       measure.py start SIZE SEEN              the cost of the agent's start
       measure.py rules ENDPOINTS LINES        the agent's rules after its start
       measure.py changes SIZE NETNS SEEN HISTORY ENDPOINTS SLICES ROLLING RATE      the costs of so many changes
       measure.py count NODE                   counts bytes between that address and the API server from now on
       measure.py server CGROUP                the API server's costs so far
       measure.py served CGROUP SIZE FILE      its costs of an agent's start: since the output of `server` was written to FILE
       measure.py cost CGROUP SIZE COUNT RATE  its costs of so many changes
       measure.py extrapolate RECORDS SIZE NODES ENDPOINTS     its costs of so many agents, each as expensive as the measured one
       measure.py hits LABEL REQUESTS ENDPOINTS CSV HITS       evaluates the output of hey and of the server
Times are seconds, memory is bytes. SEEN is the output of `bench_connect watch`, HISTORY a file of endpoint_history.py. In the
environment PEER names the measured agent, and ROUND is the number of the round."""

import json
import os
import pathlib
import sys
import time


def emit(**fields):
    print(json.dumps(fields), flush=True)


def emit_round(part, **fields):
    emit(part=part, **fields, round=int(os.environ["ROUND"]))


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


# ---- The agent in a cluster. Modules that need a control plane are imported by the functions that use them. ----

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
        except agents.Busy as error:
            sys.exit(str(error))
    sys.exit(f"nothing was programmed within {words[0]} s")


def start(words):
    import changes as work
    emit_round("updates", peer=os.environ["PEER"], **work.start(*words))


def rules(words):
    import agents
    agent = agents.Agent()
    emit_round("rules", peer=agent.name, endpoints=int(words[0]), lines=int(words[1]), start=round(agents.last_sync() - agent.started(), 4))


def changes(words):
    """Runs in the API server's network namespace; the agent's metrics are read in the agent's."""
    import agents
    import changes as work
    size, netns, seen, history, *numbers = words
    endpoints, slices, rolling, rate = map(int, numbers)
    made = work.Changes(size, netns, seen, history)

    def emit_change(what, measured):
        """Measures and records one change. If it fails, the next ones are still measured."""
        try:
            emit_round("updates", peer=made.agent.name, size=size, what=what, **measured())
        except (work.Missed, agents.Busy) as error:
            emit(part=f"updates {size} {made.agent.name} {what}", skipped=str(error))

    for _ in range(endpoints):
        emit_change("one endpoint", lambda: made.one(lambda: made.replace(0)))
    for _ in range(slices):
        emit_change("one slice", lambda: made.one(made.replace_slice))
    if rolling:
        emit_change(f"{rolling} endpoints at {rate}/s", lambda: made.rolling(rolling, rate))


def count(words):
    import apiserver
    apiserver.count(words[0])


def server(words):
    import apiserver
    emit(**apiserver.Server(words[0]).figures())


def served(words):
    import apiserver
    cgroup, size, before = words
    found = apiserver.difference(apiserver.Server(cgroup).figures(), json.loads(pathlib.Path(before).read_text(encoding="ascii")))
    emit_round("cost", peer=os.environ["PEER"], what="start", size=size, **found)


def cost(words):
    import apiserver
    cgroup, size, number, rate = words
    emit_round("cost", peer=os.environ["PEER"], **apiserver.cost_of_changes(apiserver.Server(cgroup), size, int(number), float(rate)))


def extrapolate(words):
    import apiserver
    import objects
    records = [json.loads(line) for line in pathlib.Path(words[0]).read_text(encoding="utf-8").splitlines()]
    for found in apiserver.extrapolated(records, objects.Size(words[1]), int(words[2]), int(words[3])):
        emit(**found)


def hits(words):
    import load_result as work
    emit_round("workload", **work.load(words[0], int(words[1]), int(words[2]), *words[3:]))


COMMANDS = (record, add, say, fill, manifests, programmed, start, rules, changes, count, server, served, cost, extrapolate, hits)
{command.__name__: command for command in COMMANDS}[sys.argv[1]](sys.argv[2:])
