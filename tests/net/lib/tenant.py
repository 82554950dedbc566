# SPDX-License-Identifier: Apache-2.0
"""Writes what one tenant may write: a Service with external addresses, and a slice by hand for each family.

usage: tenant.py DIRECTORY NAME PROTOCOL PORT[-PORT] ADDRESS[,ADDRESS...] [ENDPOINT:PORT,...] [--status]

NAME's last byte makes its ClusterIPs. --status: the addresses are a load balancer's, in the status. A file is renamed over the
former one, so the agent never sees half of it."""

import json
import os
import sys

MARK = "--status"


def objects(name, protocol, ports, addresses, endpoints, in_status):
    numbers = range(int(ports.split("-")[0]), int(ports.split("-")[-1]) + 1)
    last = ord(name[-1])
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "tenant", "name": name},
               "spec": {"clusterIP": f"10.96.7.{last}", "clusterIPs": [f"10.96.7.{last}", f"fd00:10:96::7:{last}"],
                        "ipFamilies": ["IPv4", "IPv6"],
                        "ports": [{"name": f"p{port}", "protocol": protocol, "port": port} for port in numbers]}}
    if in_status:
        service["spec"]["type"] = "LoadBalancer"
        service["status"] = {"loadBalancer": {"ingress": [{"ip": address} for address in addresses]}}
    else:
        service["spec"]["externalIPs"] = addresses
    yield service
    for endpoint in endpoints:
        address, port = endpoint.rsplit(":", 1)
        family = "IPv6" if ":" in address else "IPv4"
        yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
               "metadata": {"namespace": "tenant", "name": f"{name}-{family.lower()}",
                            "labels": {"kubernetes.io/service-name": name}},
               "ports": [{"name": f"p{number}", "protocol": protocol, "port": int(port)} for number in numbers],
               "endpoints": [{"addresses": [address]}]}


def main():
    directory, name, protocol, ports, addresses = (word for word in sys.argv[1:6])
    more = sys.argv[6:]
    endpoints = [text for word in more if word != MARK for text in word.split(",")]
    made = objects(name, protocol, ports, addresses.split(","), endpoints, MARK in more)
    path = os.path.join(directory, f"{name}.yaml")
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write("\n---\n".join(json.dumps(each) for each in made))
    os.rename(f"{path}.new", path)


main()
