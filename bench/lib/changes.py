# SPDX-License-Identifier: Apache-2.0
"""Measures what a start and what changes cost an agent, and when they take effect: by the agent's own metric, and as a client sees it.

One endpoint of many is the only one on its node, and the service's external policy is Local. So it answers every request to the node
port, while the agent must program all endpoints for the service's address. `bench_connect watch` records when another endpoint begins
to answer."""

import json
import pathlib
import statistics
import time

import agents
import endpoint_history
import kube
import objects
import steady

SMALL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class Seen:
    """The output of `bench_connect watch`: Unix time and endpoint, whenever another endpoint answers."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def lines(self, since):
        found = [line.split() for line in self.path.read_text().splitlines() if line.count(" ") == 1]
        return [(float(when), endpoint) for when, endpoint in found if float(when) >= since]

    def first(self, since, endpoint=None):
        """The time at which that endpoint, or any endpoint, was first seen; None if it was not seen."""
        return next((when for when, who in self.lines(since) if who == endpoint or (endpoint is None and who != "-")), None)

    def failures(self, since):
        """The number of connections without an answer since that time."""
        return sum(who == "-" for _, who in self.lines(since))


class Missed(Exception):
    """A change did not take effect."""


class Patches:
    """Makes the changes, without measuring an agent."""

    def __init__(self, size):
        self.size, self.api, self.fresh = objects.Size(size), kube.Api(), objects.Fresh()

    def patch(self, service, number, addresses):
        """Writes new addresses, by index, into that slice of a service."""
        path = kube.path_of("EndpointSlice", "default", f"load-{service}-{number}")
        body = [{"op": "replace", "path": f"/endpoints/{index}/addresses/0", "value": address} for index, address in addresses.items()]
        self.api.request("PATCH", path, json.dumps(body), "application/json-patch+json", SMALL)

    def replace(self, number, index=0):
        """Replaces one endpoint of the number-th slice of all; returns its new address."""
        address = self.fresh.next()
        self.patch(*self.size.slice(number), {index: address})
        return address

    def replace_slice(self):
        """Replaces all endpoints of the slice that contains the client's endpoint; returns the new address of that endpoint."""
        service, number = self.size.slice(0)
        addresses = {index: self.fresh.next() for index in range(self.size.held(number))}
        self.patch(service, number, addresses)
        return addresses[0]


class Changes(Patches):
    def __init__(self, size, netns, seen, path):
        super().__init__(size)
        self.agent, self.metrics, self.seen = agents.Agent(), agents.RemoteMetrics(netns), Seen(seen)
        self.history, self.netns = endpoint_history.EndpointHistory(self.size, path), netns

    def patch(self, service, number, addresses):
        sent = time.time()
        super().patch(service, number, addresses)
        if service == 0:
            self.history.replaced(number, addresses, sent)

    def traffic(self):
        return steady.Steady(self.netns, self.agent.cgroup.parent)

    def wrong(self, begin, found, lag):
        """The errors of the client and of requests on the node since `begin`, if the agent may be `lag` seconds behind."""
        seen = [who for _, who in self.seen.lines(begin) if who != "-"]
        return {"asked": found["asked"], "failed": self.seen.failures(begin) + found["failed"], "reset": found["reset"],
                "misrouted": self.history.misrouted(found["answers"], found["last"], lag + 1) + self.history.not_the_clients(seen)}

    def one(self, change):
        """Measures one change, from the request until it is in effect."""
        with self.traffic() as traffic:
            spent, sent = self.agent.spent(), time.time()
            address = change()
            answered = time.time() - sent
            time.sleep(1)
            self.agent.wait_idle()
            costs = spent.fields()
            seconds, seen = self.metrics.last_sync() - sent, self.seen.first(sent, address)
            if seconds <= 0 or seen is None:
                raise Missed(f"{self.agent.name} did not apply the change")
            wrong = self.wrong(sent, traffic.end(), max(seconds, seen - sent))
        return {"answered": round(answered, 5), "seconds": round(seconds, 5), "seen": round(seen - sent, 5)} | wrong | costs

    def replace_many(self, count, rate):
        """Replaces `count` endpoints one by one at that rate, distributed over the slices, and once a second the client's endpoint. Returns the
        times and new addresses of the latter."""
        begin, sent, others = time.time(), [], max(1, self.size.slices - 1)
        for at in range(count):
            time.sleep(max(0.0, begin + at / rate - time.time()))
            if at % rate == 0:
                sent.append((time.time(), self.replace(0)))
            else:
                number = 1 + at * 7919 % others
                index = at // others % self.size.held(self.size.slice(number)[1])
                # Only the line above replaces the endpoint that the client sees.
                self.replace(number, max(index, 1) if number % self.size.slices == 0 else index)
        return sent

    def rolling(self, count, rate):
        """Measures a rolling update of `count` endpoints."""
        with self.traffic() as traffic:
            spent, begin, before = self.agent.spent(), time.time(), self.metrics.read(agents.changes)
            sent = self.replace_many(count, rate)
            end = time.time()
            time.sleep(1)
            self.agent.wait_idle()
            costs, lags = spent.fields(), self.lags(sent)
            behind = max(0.0, self.metrics.last_sync() - end)
            wrong = self.wrong(begin, traffic.end(), max(behind, *lags))
        return {"seconds": round(behind, 5), "seen": round(statistics.median(lags), 5), "seen_most": round(max(lags), 5),
                "rate": round(count / (end - begin), 2)} | wrong | agents.shares(before, self.metrics.read(agents.changes)) | costs

    def lags(self, sent):
        """For each change of the client's endpoint, the time until it or a later one was seen: an agent that is behind skips some."""
        order = {address: at for at, (_, address) in enumerate(sent)}
        when = [None] * len(sent)
        for time_seen, who in self.seen.lines(sent[0][0]):
            at = order.get(who, -1)
            while at >= 0 and when[at] is None:
                when[at] = time_seen
                at -= 1
        if when[-1] is None:
            raise Missed(f"{self.agent.name} did not apply the last change")
        return [seen - begun for seen, (begun, _) in zip(when, sent)]


def start(size, seen):
    """The record of a start; to be called in the agent's network namespace when everything is programmed."""
    agent = agents.Agent()
    begun, found = agent.started(), Seen(seen)
    first, calls = found.first(begun - 0.01), agent.calls()
    return ({"what": "start", "size": size, "seconds": round(agents.last_sync() - begun, 4), "processor": agent.processor()} | agent.memory() |
            ({} if first is None else {"seen": round(first - begun, 4)}) | ({} if calls is None else {"calls": calls}))
