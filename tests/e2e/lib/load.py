# SPDX-License-Identifier: Apache-2.0
"""Makes thousands of changes. E2E_KUBE as for kube.py.

usage: load.py create COUNT           services load-0 to load-(COUNT-1), dual-stack, each with a slice of two endpoints
       load.py delete                 all of them
       load.py update SLICES SECONDS  changes the port of all endpoints of one slice of `big` after the other, 100 slices a second
                                      if the server is fast enough; the last round sets all ports to 8080
Each command prints how many changes it made."""

import concurrent.futures
import itertools
import sys
import threading
import time

import kube

RATE = 100
LABEL = "e2e-load"
OWN = threading.local()


def api():
    """The calling thread's connection."""
    if not hasattr(OWN, "api"):
        OWN.api = kube.Api()
    return OWN.api


def in_parallel(work, things):
    """Calls work for each thing in several threads; returns the number of calls."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return sum(1 for _ in pool.map(work, things))


def create(number):
    name = f"load-{number}"
    meta = {"name": name, "namespace": "default", "labels": {LABEL: "yes"}}
    api().create({"apiVersion": "v1", "kind": "Service", "metadata": meta,
                  "spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"name": "http", "port": 80}]}})
    api().create({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                  "metadata": meta | {"labels": meta["labels"] | {"kubernetes.io/service-name": name}},
                  "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                  "endpoints": [{"addresses": [f"10.{200 + last}.{number >> 8}.{number & 255}"],
                                 "conditions": {"ready": True}} for last in range(2)]})


def delete_all():
    """Deletes all slices by one request; for services the API has no such request."""
    api().request("DELETE", kube.path_of("EndpointSlice", "default") + f"?labelSelector={LABEL}%3Dyes")
    found = api().get(kube.path_of("Service", "default") + f"?labelSelector={LABEL}%3Dyes")
    return in_parallel(lambda each: api().delete(kube.path_of("Service", "default", each["metadata"]["name"])),
                      found["items"])


def set_port(at, port):
    path = kube.path_of("EndpointSlice", "default", f"big-{at}")
    api().patch(path, {"ports": [{"name": "http", "port": port, "protocol": "TCP"}]})


def update(slices, seconds):
    begin, made = time.monotonic(), 0
    for at in itertools.cycle(range(slices)):
        time.sleep(max(0.0, begin + made / RATE - time.monotonic()))
        if time.monotonic() - begin > seconds:
            break
        set_port(at, 8081 + made % 7)
        made += 1
    return made + in_parallel(lambda at: set_port(at, 8080), range(slices))


def main():
    command, *numbers = sys.argv[1:]
    if command == "create":
        print(in_parallel(create, range(int(numbers[0]))))
    elif command == "delete":
        print(delete_all())
    else:
        print(update(*map(int, numbers)))


main()
