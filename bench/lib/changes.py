"""What a start and what changes cost an agent, and when they take effect: by its own metric, and as a client sees it.

A client sees one endpoint of many because it is the only one of its node, and the node port's policy is Local: whoever asks the
node port is answered by it, while the agent has all endpoints to keep for the service's address. `bench_connect watch` writes
down when another endpoint begins to answer."""

import json
import pathlib
import statistics
import time

import agents
import kube
import objects

SMALL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class Seen:
    """What the client has written: Unix time and endpoint, whenever that is another."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def lines(self, since):
        found = [line.split() for line in self.path.read_text().splitlines() if line.count(" ") == 1]
        return [(float(when), endpoint) for when, endpoint in found if float(when) >= since]

    def first(self, since, endpoint=None):
        """When that endpoint was seen, or any; None: not at all."""
        return next((when for when, who in self.lines(since) if who == endpoint or (endpoint is None and who != "-")), None)

    def failures(self, since):
        """How often nobody answered after somebody had."""
        return sum(who == "-" for _, who in self.lines(since))


class Changes:
    def __init__(self, size, netns, seen):
        self.size, self.agent = objects.Size(size), agents.Agent()
        self.metrics, self.seen = agents.Elsewhere(netns), Seen(seen)
        self.api, self.fresh = kube.Api(), objects.Fresh()

    def patch(self, service, number, changes):
        path = kube.path_of("EndpointSlice", "default", f"load-{service}-{number}")
        body = [{"op": "replace", "path": place, "value": value} for place, value in changes]
        self.api.ask("PATCH", path, json.dumps(body), "application/json-patch+json", SMALL)

    def replace(self, number, index=0):
        """One endpoint of the number-th slice of all; returns its new address."""
        address = self.fresh.next()
        self.patch(*self.size.slice(number), [(f"/endpoints/{index}/addresses/0", address)])
        return address

    def replace_slice(self):
        """All endpoints of the slice that the client sees one of."""
        service, number = self.size.slice(0)
        addresses = [self.fresh.next() for _ in range(self.size.held(number))]
        self.patch(service, number, [(f"/endpoints/{index}/addresses/0", address) for index, address in enumerate(addresses)])
        return addresses[0]

    def one(self, what, change):
        """One change, from the request to when it had its effect."""
        spent, sent = self.agent.spent(), time.time()
        address = change()
        answered = time.time() - sent
        time.sleep(1)
        self.agent.wait_idle()
        seconds, seen = self.metrics.last_sync() - sent, self.seen.first(sent, address)
        if seconds <= 0 or seen is None:
            raise SystemExit(f"{self.agent.name} did not take the change in")
        return {"what": what, "answered": round(answered, 5), "seconds": round(seconds, 5), "seen": round(seen - sent, 5), "failed": self.seen.failures(sent)} | spent.fields()

    def rolling(self, count, rate):
        """`count` endpoints replaced one by one at that rate, all over the slices; once a second the one that the client sees."""
        spent, begin, sent, before = self.agent.spent(), time.time(), [], self.metrics.read(agents.changes)
        for at in range(count):
            time.sleep(max(0.0, begin + at / rate - time.time()))
            if at % rate == 0:
                sent.append((time.time(), self.replace(0)))
            else:
                number = 1 + at * 7919 % max(1, self.size.slices - 1)
                index = at // max(1, self.size.slices - 1) % self.size.held(self.size.slice(number)[1])
                # The client's own changes by the line above alone.
                self.replace(number, max(index, 1) if number % self.size.slices == 0 else index)
        end = time.time()
        time.sleep(1)
        self.agent.wait_idle()
        lags = self.lags(sent)
        return {"what": f"{count} endpoints at {rate}/s", "seconds": round(max(0.0, self.metrics.last_sync() - end), 5),
                "seen": round(statistics.median(lags), 5), "seen_most": round(max(lags), 5), "failed": self.seen.failures(begin),
                "rate": round(count / (end - begin), 2)} | agents.shares(before, self.metrics.read(agents.changes)) | spent.fields()

    def lags(self, sent):
        """Of each of the client's changes, until it or a later one was seen: an agent that is behind leaves some out."""
        order = {address: at for at, (_, address) in enumerate(sent)}
        when = [None] * len(sent)
        for time_seen, who in self.seen.lines(sent[0][0]):
            at = order.get(who, -1)
            while at >= 0 and when[at] is None:
                when[at] = time_seen
                at -= 1
        if when[-1] is None:
            raise SystemExit(f"{self.agent.name} did not take the last change in")
        return [seen - begun for seen, (begun, _) in zip(when, sent)]


def start(size, seen):
    """In the agent's network namespace, when all is programmed."""
    agent = agents.Agent()
    begun, found = agent.started(), Seen(seen)
    first = found.first(begun - 0.01)
    calls = agent.calls()
    return {"what": "start", "size": size, "seconds": round(agents.last_sync() - begun, 4), "processor": agent.processor(),
            "resident": agent.resident()} | ({} if first is None else {"seen": round(first - begun, 4)}) | (
                {} if calls is None else {"calls": calls})
