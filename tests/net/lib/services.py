# SPDX-License-Identifier: Apache-2.0
"""Writes services as manifests, each with a slice, to temporary files that are then renamed, as fast as possible.

usage: services.py PREFIX COUNT ENDPOINTS DIRECTORY    (PREFIX-0, PREFIX-1 ...: addresses in a network of the prefix below 10.97.0.0 to
10.196.0.0 for the services, below 10.200.0.0 to 10.255.0.0 for their endpoints)"""

import json
import os
import sys
import zlib


def things_of(prefix, at, endpoints):
    name, network, high, low = f"{prefix}-{at}", 97 + zlib.crc32(prefix.encode()) % 100, at >> 8, at & 255
    yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
           "spec": {"clusterIP": f"10.{network}.{high}.{low}", "ports": [{"name": "http", "port": 80}]}}
    yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
           "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
           "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
           "endpoints": [{"addresses": [f"10.{200 + last % 56}.{high}.{(low + last // 56) % 256}"]} for last in range(endpoints)]}


def main():
    prefix, count, endpoints, directory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    for at in range(count):
        for thing in things_of(prefix, at, endpoints):
            name = f"{prefix}-{at}-{thing['kind'].lower()}"
            fresh = os.path.join(directory, f".{name}")
            with open(fresh, "w", encoding="ascii") as file:
                json.dump(thing, file)
            os.rename(fresh, os.path.join(directory, f"{name}.json"))


main()
