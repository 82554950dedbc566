"""What bench/lib/parts measures with, one command each; what it finds is one JSON object a line on standard output.

usage: measure.py record PART KEY=VALUE...
       measure.py say                          standard input's records in words
       measure.py fill SERVICES ENDPOINTS NODE_PORT      that many services, with that many endpoints each, at the API server
       measure.py programmed PID SECONDS       waits until the agent with that pid has programmed all, and is idle
       measure.py start PEER SIZE PID          what its start took
       measure.py changes PEER SIZE PID NETNS COUNT      one endpoint changed, COUNT times
       measure.py load LABEL REQUESTS ENDPOINTS CSV HITS what hey and the server wrote
Times are seconds, memory is bytes. The two agents are read in one way: by kube-proxy's metric of the last synchronisation, which
both have, and by what the kernel says of their processes, children included."""

import collections
import csv
import ipaddress
import json
import math
import os
import pathlib
import re
import statistics
import sys
import time
import urllib.request

METRICS = "http://127.0.0.1:10249/metrics"
TICKS = os.sysconf("SC_CLK_TCK")
SLICE = 100
FIRST_ENDPOINT = ipaddress.IPv4Address("10.128.0.0")
FIRST_SERVICE = ipaddress.IPv4Address("10.96.16.0")


def emit(**fields):
    print(json.dumps(fields), flush=True)


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def record(words):
    emit(part=words[0], **{key: value_of(value) for key, _, value in (word.partition("=") for word in words[1:])})


def say(_):
    for line in sys.stdin:
        fields = json.loads(line)
        print("  " + ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                               for key, value in fields.items() if not isinstance(value, (list, dict))), flush=True)


# ---- Objects ----

def endpoint_address(service, index):
    """Distinct for all services, of which several have at most 64 endpoints each."""
    return str(FIRST_ENDPOINT + service * 64 + index)


def fresh_address():
    """One that no endpoint has had before, in the upper half of the range."""
    return str(FIRST_ENDPOINT + (1 << 22) + int(time.time() * 8) % (1 << 22))


def slice_of(service, number, count):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"load-{service}-{number}", "namespace": "default",
                         "labels": {"kubernetes.io/service-name": f"load-{service}"}},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": [endpoint_address(service, number * SLICE + index)],
                           "conditions": {"ready": True, "serving": True, "terminating": False},
                           "nodeName": f"node-{(number * SLICE + index) % 5000}", "zone": f"zone-{'abc'[index % 3]}"}
                          for index in range(count)]}


def service_of(service, node_port):
    port = {"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"}
    if node_port:
        port["nodePort"] = node_port
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"load-{service}", "namespace": "default"},
            "spec": {"type": "NodePort" if node_port else "ClusterIP", "clusterIP": str(FIRST_SERVICE + service), "ports": [port]}}


def fill(words):
    import kube
    services, endpoints, node_port = map(int, words)
    api = kube.Api()
    for service in range(services):
        api.create(service_of(service, node_port))
        for number in range(math.ceil(endpoints / SLICE)):
            api.create(slice_of(service, number, min(SLICE, endpoints - number * SLICE)))


# ---- Agents ----

def processor_seconds(pid):
    """Of the process, its threads, and the children that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def started(pid):
    """Unix time of its start."""
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    boot = int(re.search(r"^btime (\d+)", pathlib.Path("/proc/stat").read_text(), re.M).group(1))
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    return max(boot, time.time() - uptime) + ticks / TICKS


def resident(pid):
    return int(re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) * 1024


def last_sync():
    """Unix time at which the agent had last brought the kernel up to date; 0 before the first time."""
    with urllib.request.urlopen(METRICS, timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*ip_family="IPv4"[^}]*\})? (\S+)', text, re.M)
    return max(map(float, found), default=0.0)


def wait_idle(pid, quiet=1.0):
    """Until it has computed nothing worth a tick in `quiet` seconds."""
    before = processor_seconds(pid)
    while True:
        time.sleep(quiet)
        now = processor_seconds(pid)
        if now - before <= 0.02 * quiet:
            return
        before = now


def programmed(words):
    pid, until = int(words[0]), time.monotonic() + float(words[1])
    while time.monotonic() < until:
        time.sleep(0.25)
        if not os.path.exists(f"/proc/{pid}"):
            sys.exit("the agent has ended")
        try:
            if last_sync() > 0:
                wait_idle(pid)
                return
        except OSError:
            pass
    sys.exit("nothing was programmed in time")


def start(words):
    peer, size, pid = words[0], words[1], int(words[2])
    emit(part="updates", what="start", peer=peer, size=size, seconds=round(last_sync() - started(pid), 4),
         processor=processor_seconds(pid), resident=resident(pid))


def changes(words):
    """Runs beside the API server; the agent's metrics are read in its own network namespace."""
    import kube
    peer, size, pid, netns, count = words[0], words[1], int(words[2]), words[3], int(words[4])
    api = kube.Api()
    slices = math.ceil(int(size.split("x")[1]) / SLICE)
    inside = os.open(netns, os.O_RDONLY)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    for change in range(1, count + 1):
        path = kube.path_of("EndpointSlice", "default", f"load-0-{change * 7 % slices}")
        address = fresh_address()
        before = processor_seconds(pid)
        sent = time.time()
        api.json("PATCH", path, [{"op": "replace", "path": "/endpoints/3/addresses/0", "value": address}],
                 "application/json-patch+json")
        time.sleep(1)
        wait_idle(pid)
        spent = processor_seconds(pid) - before
        api.connection.close()
        os.setns(inside, os.CLONE_NEWNET) if hasattr(os, "setns") else set_namespace(inside)
        seconds = last_sync() - sent
        os.setns(here, os.CLONE_NEWNET) if hasattr(os, "setns") else set_namespace(here)
        if seconds <= 0:
            sys.exit(f"{peer} did not take the change in")
        emit(part="updates", what="one endpoint", peer=peer, size=size, seconds=round(seconds, 5), processor=round(spent, 3),
             resident=resident(pid))


def set_namespace(descriptor):
    """os.setns came with Python 3.12."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


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


COMMANDS = {"record": record, "say": say, "fill": fill, "programmed": programmed, "start": start, "changes": changes, "load": load}
COMMANDS[sys.argv[1]](sys.argv[2:])
