# SPDX-License-Identifier: Apache-2.0
"""Writes manifests as a hostile tenant might: valid enough to be decoded, and otherwise as invalid and large as possible.

usage: hostile_objects.py DIRECTORY [all]   (one object per file; the names begin with "hostile-")

With "all" one slice has 10,000 endpoints of 100 ports, a million backends, and another one 200 MB of zones' names: minutes of reading
and listing. Else they are no larger than an API server takes: 1,000 endpoints of 20 ports, and 1 MB."""

import json
import os
import sys

ESCAPES = "\u001b]0;title\u0007\u001b[31mred\u009b2J\u202e\u0000\u007f"
LONG = "x" * 200_000


def service(name, annotations=None, labels=None, **spec):
    return {"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}, "labels": labels or {}},
            "spec": {"clusterIP": "10.96.200.1", "ports": [{"name": "http", "port": 80}], **spec}}


def slice_of(name, of, annotations=None, **more):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {},
                         "labels": {"kubernetes.io/service-name": of}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": ["10.244.9.9"]}], **more}


def annotated():
    values = ["", " ", "-1", "NaN", "inf", "1e308", "9" * 400, "0x10", "true", "null", "[]", "{}", "*", ",,,", "*,*,*", ESCAPES, LONG,
              "kubernetes.io/hostname," * 10_000, "$(id)", "%s%n%x", "../../../etc/passwd", "\u0000"]
    keys = ["sluice.lb/weight", "sluice.lb/topology-keys", "sluice.lb/selection", "service.kubernetes.io/topology-mode",
            "service.kubernetes.io/topology-aware-hints", "endpoints.kubernetes.io/last-change-trigger-time",
            "service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless", ESCAPES, ""]
    for number, value in enumerate(values):
        every = {key: value for key in keys}
        yield service(f"annotated-{number}", every)
        yield slice_of(f"annotated-{number}", f"annotated-{number}", every)
    times = ["9999-12-31T23:59:59.999999999Z", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-02-30T25:61:61Z",
             "2026-01-01T00:00:00." + "9" * 1000 + "Z", "2026-01-01T00:00:00+99:99"]
    for number, value in enumerate(times):
        yield slice_of(f"time-{number}", "annotated-0", {"endpoints.kubernetes.io/last-change-trigger-time": value})


def named(every):
    for number, name in enumerate([ESCAPES, LONG, "", "..", "../../x", "a/b", "a:b", "A b", "web\nSluice: all is well", "é" * 100, None, 7, []]):
        yield service(name)
        made = slice_of(f"named-{number}", "annotated-0")
        made["metadata"]["labels"]["kubernetes.io/service-name"] = name
        yield made
        odd = service(f"port-{number}")
        odd["spec"]["ports"] = [{"name": name, "port": 80}, {"name": name, "port": 81}]
        yield odd
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name}}}
        yield slice_of(f"node-{number}", "annotated-0", endpoints=[
            {"addresses": ["10.244.9.8"], "nodeName": name, "zone": name, "hints": {"forZones": [{"name": name}] * (5 if name is LONG and not every else 1000)}}])


def numbers():
    for number, value in enumerate([0, -1, 65536, 1 << 31, 1 << 63, 1 << 200, 1.5, "80", None, [80], {"a": 80}, True]):
        odd = service(f"number-{number}", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": value}},
                      healthCheckNodePort=value, externalTrafficPolicy="Local", type="LoadBalancer")
        odd["spec"]["ports"] = [{"name": "http", "port": value, "nodePort": value, "targetPort": value}]
        yield odd
        yield slice_of(f"number-{number}", f"number-{number}", ports=[{"name": "http", "port": value}])


def large(every):
    many = [f"203.{at >> 16}.{at >> 8 & 255}.{at & 255}" for at in range(70_000)]
    yield service("large-addresses", externalIPs=many)
    yield service("large-ranges", type="LoadBalancer", loadBalancerSourceRanges=[f"{one}/32" for one in many])
    yield service("large-ingress", type="LoadBalancer") | {"status": {"loadBalancer": {"ingress": [{"ip": one} for one in many]}}}
    ports = service("large-ports")
    ports["spec"]["ports"] = [{"name": f"p{at}", "port": at + 1} for at in range(20_000)]
    yield ports
    yield service("large-annotations", {f"k{at}": "v" for at in range(30_000)}, {f"k{at}": "v" for at in range(30_000)})
    yield slice_of("large-endpoints", "large-ports", ports=[{"name": f"p{at}", "port": at + 1} for at in range(100 if every else 20)],
                   endpoints=[{"addresses": [one]} for one in many[:10_000 if every else 1_000]])
    yield slice_of("large-addresses-of-one", "annotated-0", endpoints=[{"addresses": many}])
    yield slice_of("large-hints", "annotated-0", endpoints=[
        {"addresses": ["10.244.9.7"], "hints": {"forZones": [{"name": f"z{at}"} for at in range(50_000)]}}])
    yield {"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "large", "labels": {f"k{at}": "v" for at in range(30_000)}}, "spec": {"podCIDRs": [f"{one}/32" for one in many]},
        "status": {"addresses": [{"type": "InternalIP", "address": one} for one in many]}}
    yield {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "large"},
           "spec": {"cidrs": [f"{one}/32" for one in many]}}
    deep = {}
    for _ in range(5_000):
        deep = {"a": deep}
    yield service("deep", **{"more": deep})


def main():
    sys.setrecursionlimit(100_000)
    every = sys.argv[2:] == ["all"]
    kinds = {"annotated": annotated(), "named": named(every), "numbers": numbers(), "large": large(every)}
    for kind, things in kinds.items():
        for number, thing in enumerate(things):
            path = os.path.join(sys.argv[1], f".hostile-{kind}-{number}")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(thing, file)
            os.rename(path, os.path.join(sys.argv[1], f"hostile-{kind}-{number}.json"))


main()
