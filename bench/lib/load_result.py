# SPDX-License-Identifier: Apache-2.0
"""Evaluates a load by hey from the output of hey and of the server. hey writes a line for each response, and none for a request without a
response; the server writes the destination address of each request, and the client's address and port as the server saw them."""

import collections
import csv
import math
import pathlib
import statistics

import objects


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def times(rows):
    """Rate, and times to connect and to the response, from hey's rows."""
    connect = [float(row["DNS+dialup"]) for row in rows]
    response = [float(row["response-time"]) for row in rows]
    seconds = max(float(row["offset"]) + float(row["response-time"]) for row in rows)
    return {"per_second": len(rows) / seconds, "connect_mean": statistics.fmean(connect), "connect_p99": percentile(connect, 0.99),
            "response_mean": statistics.fmean(response), "response_p99": percentile(response, 0.99)}


def distribution(hits, endpoints):
    """Compares the hits with a uniform distribution; the deviation is in standard deviations of chance (the normal approximation of
    chi-square)."""
    total, degrees = sum(hits.values()), endpoints - 1
    even = total / endpoints
    if not total or not degrees:
        return {}
    statistic = sum((count - even) ** 2 / even for count in hits.values()) + (endpoints - len(hits)) * even
    return {"expected_hit": round(endpoints * -math.expm1(total * math.log1p(-1 / endpoints)), 1), "chi_square": round(statistic, 1),
            "degrees": degrees, "deviation": (statistic - degrees) / math.sqrt(2 * degrees)}


def even_choices(requests):
    """Independent choices of an endpoint, counted by endpoint. If the tuple alone decides, so that every node selects the same endpoint, a
    client that reuses its ports reaches the same endpoints again: such a tuple is one choice, however often it occurs."""
    return collections.Counter(address for address, _ in set(requests))


def load(label, requests, endpoints, csv_path, hits_path):
    """The record of one run of hey."""
    with open(csv_path, encoding="ascii") as lines:
        rows = [row for row in csv.DictReader(lines) if row["status-code"]]
    good = sum(row["status-code"] == "200" for row in rows)
    direct = "direct" in label
    received = [tuple(line.split()) for line in pathlib.Path(hits_path).read_text(encoding="ascii").splitlines()]
    hits = collections.Counter(address for address, _ in received)
    wanted = {"10.128.0.1"} if direct else {objects.endpoint_address(0, index) for index in range(endpoints)}
    own = {address: count for address, count in hits.items() if address in wanted}
    choices = {address: count for address, count in even_choices(received).items() if address in wanted}
    foreign = sum(hits.values()) - sum(own.values())
    # A response without a hit at this server did not come from an endpoint either.
    return {"label": label, "endpoints": endpoints, "requests": requests, "failed": requests - good,
            "misrouted": foreign + max(0, good - sum(hits.values())), "hits": sum(hits.values()), "endpoints_hit": len(own),
            "choices": sum(choices.values())} | (times(rows) if rows else {}) | ({} if direct else distribution(choices, endpoints))
