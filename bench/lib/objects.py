# SPDX-License-Identifier: Apache-2.0
"""Creates the objects that bench/run measures with. A hundred thousand requests to the API server would take longer than all measurements
together, so the objects are written into its etcd, from which the server serves them like all others. Changes during a measurement go
through the API."""

import base64
import ipaddress
import itertools
import json
import math
import time
import urllib.request
import uuid

ETCD = "http://127.0.0.1:2379/v3/kv/txn"
SLICE = 100
# The pods of the published workload are 10 groups of 10,000: for each service, consecutive slices.
GROUPS = 10
FIRST_ENDPOINT = ipaddress.IPv4Address("10.128.0.0")
FIRST_SERVICE = ipaddress.IPv4Address("10.96.16.0")
# Within the limits of an etcd transaction, which are 128 operations and 1.5 MB.
OPERATIONS, BYTES = 100, 700_000


class Size:
    """A number of services, each with a number of endpoints, from the text SERVICESxENDPOINTS."""

    def __init__(self, text):
        self.text = text
        self.services, self.endpoints = map(int, text.split("x"))
        self.slices_each = math.ceil(self.endpoints / SLICE)
        self.slices = self.services * self.slices_each

    def slice(self, number):
        """The service, and the slice of that service, of the number-th slice of all."""
        return divmod(number % self.slices, self.slices_each)

    def group(self, number):
        """The group of pods of that slice of a service; small services have only one group."""
        return number * GROUPS // self.slices_each

    def held(self, number):
        """The number of endpoints in that slice of a service."""
        return min(SLICE, self.endpoints - number * SLICE)


def endpoint_address(service, index):
    """The address of an endpoint; distinct for all services, because each of several services has at most 64 endpoints."""
    return str(FIRST_ENDPOINT + service * 64 + index)


def number_of(address):
    return int(ipaddress.IPv4Address(address))


class Fresh:
    """Addresses that no endpoint has had before, in the upper half of the range. They follow the clock, 128 a second, so that later
    processes do not repeat them."""

    def __init__(self):
        self.last = 0

    def next(self):
        self.last = max(self.last + 1, int(time.time() * 128))
        return str(FIRST_ENDPOINT + (1 << 22) + self.last % (1 << 22))


def meta(name, **more):
    return {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1} | more


def endpoint(service, index):
    """An endpoint. The first of all is on the measured node: with `externalTrafficPolicy: Local` the node's clients reach only this one, so
    that a client can see one endpoint of a hundred thousand."""
    node = "node" if service == 0 and index == 0 else f"node-{index % 5000}"
    return {"addresses": [endpoint_address(service, index)], "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": node, "zone": f"zone-{'abc'[index % 3]}"}


def ports(key, protocols):
    return [{"name": protocol.lower(), key: 80, "protocol": protocol} for protocol in protocols]


def slice_of(service, number, count, group, protocols=("TCP",)):
    labels = {"kubernetes.io/service-name": f"load-{service}", "group": f"group-{group}"}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": meta(f"load-{service}-{number}", namespace="default", labels=labels),
            "ports": ports("port", protocols),
            "endpoints": [endpoint(service, number * SLICE + index) for index in range(count)]}


def service_of(service, protocols=("TCP",)):
    address = str(FIRST_SERVICE + service)
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta(f"load-{service}", namespace="default"),
            "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
                     "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
                     "ports": [port | {"targetPort": 80} for port in ports("port", protocols)]}}


def node_port_of(service, node_port, policy, protocols=("TCP",)):
    """A service with a node port, to be created through the API server, which allocates node ports."""
    made = service_of(service, protocols)
    made["metadata"] = {"name": f"load-{service}", "namespace": "default"}
    made["spec"] |= {"type": "NodePort", "externalTrafficPolicy": policy}
    for port in made["spec"]["ports"]:
        port["nodePort"] = node_port
    return made


def address_of(service):
    """The IPAddress object that the API server keeps for each ClusterIP; it would create a missing one."""
    return {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": meta(str(FIRST_SERVICE + service), labels={"ipaddress.kubernetes.io/ip-family": "IPv4",
                                                                   "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}),
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": f"load-{service}"}}}


def entry(path, thing):
    value = json.dumps(thing, separators=(",", ":")).encode()
    return {"request_put": {"key": base64.b64encode(f"/registry/{path}".encode()).decode(), "value": base64.b64encode(value).decode()}}


def entries(size, first_service, protocols):
    for service in range(first_service, size.services):
        yield entry(f"ipaddresses/{FIRST_SERVICE + service}", address_of(service))
        yield entry(f"services/specs/default/load-{service}", service_of(service, protocols))
    for service, number in itertools.product(range(size.services), range(size.slices_each)):
        made = slice_of(service, number, size.held(number), size.group(number), protocols)
        yield entry(f"endpointslices/default/load-{service}-{number}", made)


def documents(service, endpoints, protocols):
    """Yields a service and its slices, each with the name of its file."""
    size = Size(f"1x{endpoints}")
    yield f"service-{service}", service_of(service, protocols)
    for number in range(size.slices_each):
        yield f"slice-{service}-{number}", slice_of(service, number, size.held(number), size.group(number), protocols)


def write(batch):
    if batch:
        request = urllib.request.Request(ETCD, json.dumps({"success": batch}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            if not json.load(answer).get("succeeded"):
                raise OSError("etcd did not store the objects")


def fill(api, size, node_port=0, policy="Cluster", protocols=("TCP",)):
    """Creates the objects, and waits until the API server lists them. A node port belongs to the first service."""
    if node_port:
        api.create(node_port_of(0, node_port, policy, protocols))
    batch, held = [], 0
    for each in entries(size, 1 if node_port else 0, protocols):
        taken = len(each["request_put"]["value"])
        if len(batch) == OPERATIONS or held + taken > BYTES:
            write(batch)
            batch, held = [], 0
        batch.append(each)
        held += taken
    write(batch)
    wait_listed(api, size)


def wait_listed(api, size, seconds=120):
    """Waits until the API server, which watches etcd, lists all objects."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        counts = []
        for path in ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"):
            listed = api.get(f"{path}?limit=1")
            counts.append(listed["metadata"].get("remainingItemCount", 0) + len(listed["items"]))
        if counts[0] >= size.services and counts[1] >= size.slices:
            # etcd answers requests with `limit`; the watch cache, which serves agents, follows shortly after.
            time.sleep(2 + size.slices / 20000)
            return
        time.sleep(0.5)
    raise OSError(f"the API server lists {counts}, not {size.services} and {size.slices}")
