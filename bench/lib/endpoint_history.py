# SPDX-License-Identifier: Apache-2.0
"""Records the endpoints of the first service over all changes that bench/run makes, so that each answer to a client can be checked. The
record is a file, because each agent's changes are made by a process of their own, and the next process continues."""

import json
import pathlib

import objects


class EndpointHistory:
    def __init__(self, size, path):
        self.size, self.path = size, pathlib.Path(path)
        self.first = int(objects.FIRST_ENDPOINT)
        self.now, self.added, self.gone, self.seen_by_client = {}, set(), {}, {objects.endpoint_address(0, 0)}
        if self.path.exists():
            for line in self.path.read_text(encoding="ascii").splitlines():
                self.note(*json.loads(line), when=0.0)

    def note(self, number, index, address, when):
        """Records a new address of the endpoint at that index of the number-th slice."""
        place = (number, index)
        self.gone[self.now.get(place, objects.endpoint_address(0, number * objects.SLICE + index))] = when
        self.now[place] = address
        self.added.add(address)
        if place == (0, 0):
            self.seen_by_client.add(address)

    def replaced(self, number, changes, when):
        """Records new addresses, by index, in a slice of the first service; `when` is the time of the request to the API server."""
        with self.path.open("a", encoding="ascii") as file:
            for index, address in changes.items():
                self.note(number, index, address, when)
                file.write(json.dumps([number, index, address]) + "\n")

    def was_endpoint(self, address):
        return address in self.added or 0 <= objects.number_of(address) - self.first < self.size.endpoints

    def misrouted(self, answers, last, lag):
        """The number of answers from addresses that were never endpoints, plus one for each endpoint that answered a request made more than
        `lag` after its removal."""
        foreign = sum(count for address, count in answers.items() if not self.was_endpoint(address))
        return foreign + sum(address in self.gone and begun > self.gone[address] + lag for address, begun in last.items())

    def not_the_clients(self, addresses):
        """The number of addresses that answered at the node port and were never the first endpoint: only that one may answer there."""
        return sum(address not in self.seen_by_client for address in addresses)
