"""What bench/lib/parts measures with, one command each; what it finds is one JSON object a line on standard output.

usage: measure.py record PART KEY=VALUE...
       measure.py add PART KEY=VALUE...        the same with the fields of standard input's JSON object
       measure.py say                          standard input's records in words
       measure.py fill SIZE [NODE_PORT POLICY [PROTOCOL...]]   objects behind the API server; SIZE is SERVICESxENDPOINTS
       measure.py manifests DIRECTORY ENDPOINTS...     the same as files: one service for each number, with TCP and UDP
       measure.py programmed SECONDS           waits until the agent has programmed all, and is idle
       measure.py start SIZE SEEN              what its start took
       measure.py rules ENDPOINTS LINES        the agent's rules after its start
       measure.py changes SIZE NETNS SEEN HISTORY ENDPOINTS SLICES ROLLING RATE      what so many changes took
       measure.py count NODE                   counts bytes between that address and the API server from here on
       measure.py server CGROUP                what the API server has spent so far
       measure.py served CGROUP SIZE FILE      what it has spent since that was written to FILE, on an agent's start
       measure.py cost CGROUP SIZE COUNT RATE  what it spends on so many changes
       measure.py extrapolate RECORDS SIZE NODES ENDPOINTS     what so many agents would cost it, each as much as the measured one
       measure.py hits LABEL REQUESTS ENDPOINTS CSV HITS       what hey and the server wrote
Times are seconds, memory is bytes. SEEN is what `bench_connect watch` writes, HISTORY a file of endpoint_history.py. In the
environment PEER is who is measured, ROUND the number of the round."""

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
            sys.exit("it has ended")
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
    """Runs beside the API server; the agent's metrics are read in its own network namespace."""
    import agents
    import changes as work
    size, netns, seen, history, *numbers = words
    endpoints, slices, rolling, rate = map(int, numbers)
    made = work.Changes(size, netns, seen, history)

    def tell(what, measured):
        """One that fails is not in the way of the next."""
        try:
            emit_round("updates", peer=made.agent.name, size=size, what=what, **measured())
        except (work.Missed, agents.Busy) as error:
            emit(part=f"updates {size} {made.agent.name} {what}", skipped=str(error))

    for _ in range(endpoints):
        tell("one endpoint", lambda: made.one(lambda: made.replace(0)))
    for _ in range(slices):
        tell("one slice", lambda: made.one(made.replace_slice))
    if rolling:
        tell(f"{rolling} endpoints at {rate}/s", lambda: made.rolling(rolling, rate))


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
