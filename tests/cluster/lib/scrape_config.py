# SPDX-License-Identifier: Apache-2.0
"""Prints the Prometheus configuration that the Prometheus operator makes of a PodMonitor. usage: scrape_config.py PODMONITOR PODS, both as
kubectl prints them in JSON. Debian's Prometheus does not discover pods, so each pod is listed with the labels that the discovery would give
it."""

import json
import re
import sys

META = "__meta_kubernetes_pod_"


def label(name):
    return META + "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", name)


def snake_case(name):
    return re.sub(r"[A-Z]", lambda found: "_" + found.group().lower(), name)


def selected(spec):
    """Relabeling rules that keep the matching pods that run, and take the job's name from their label."""
    rules = [{"action": "keep", "source_labels": [label(name)], "regex": value} for name, value in spec["selector"]["matchLabels"].items()]
    rules.append({"action": "drop", "source_labels": [META + "phase"], "regex": "(Failed|Succeeded)"})
    return rules + [{"source_labels": [label(spec["jobLabel"])], "target_label": "job", "regex": "(.+)"}]


def discovered(pod):
    """The target and labels that the discovery gives a pod whose containers declare no ports."""
    status = pod["status"]
    labels = {label(name): value for name, value in pod["metadata"]["labels"].items()}
    labels |= {META + "ip": status["podIP"], META + "phase": status["phase"], META + "node_name": pod["spec"]["nodeName"]}
    return {"targets": [status["podIP"]], "labels": labels}


def scrape(monitor, pods, number, endpoint):
    namespace, name = monitor["metadata"]["namespace"], monitor["metadata"]["name"]
    relabelings = [{snake_case(key): value for key, value in rule.items()} for rule in endpoint["relabelings"]]
    return {"job_name": f"podMonitor/{namespace}/{name}/{number}", "metrics_path": endpoint["path"],
            "static_configs": [discovered(pod) for pod in pods if pod["metadata"]["namespace"] == namespace],
            "relabel_configs": selected(monitor["spec"]) + relabelings}


def main():
    monitor, pods = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    scrapes = [scrape(monitor, pods["items"], number, endpoint) for number, endpoint in enumerate(monitor["spec"]["podMetricsEndpoints"])]
    print(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}, indent=1))


main()
