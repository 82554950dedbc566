# SPDX-License-Identifier: Apache-2.0
"""Changes objects at random until a file appears. usage: churn.py SEED STOP_FILE [PAUSE]

Changes the readiness of the pods web-* (web-a is always ready), creates, changes and deletes services, changes a handwritten
slice and the node's zone. Finally all pods are ready and the node is in zone-a. Prints the number of changes."""

import os
import random
import sys
import time

import kube

PODS = ["web-pod", "web-b", "web-c"]


def quietly(step):
    try:
        step()
    except kube.Refused:
        pass  # the object was deleted, or there was a conflict; the next change follows


class Churn:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.api = kube.Api()
        self.count = 0

    def readiness(self, name=None, ready=None):
        ready = self.random.random() < 0.6 if ready is None else ready
        name = name or self.random.choice(PODS)
        state = "True" if ready else "False"
        path = kube.path_of("Pod", "default", name)
        now = self.api.get(path)
        for condition in now["status"]["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition["status"] = state
        self.api.patch(path, {"status": {"conditions": now["status"]["conditions"]}}, "/status")

    def service(self):
        name = f"churn-{self.random.randrange(6)}"
        path = kube.path_of("Service", "default", name)
        if self.random.random() < 0.4:
            self.api.delete(path)
            return
        ports = [{"name": f"p{at}", "port": 1000 + at, "targetPort": 8080}
                 for at in range(self.random.randint(1, 4))]
        try:
            self.api.patch(path, {"spec": {"ports": ports}})
        except kube.Refused:
            self.api.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
                             "spec": {"selector": {"app": "web"}, "ports": ports,
                                      "type": self.random.choice(["ClusterIP", "NodePort"]),
                                      "ipFamilyPolicy": "PreferDualStack"}})

    def slice(self):
        name = f"churn-{self.random.randrange(4)}"
        addresses = self.random.sample(range(20, 250), self.random.randint(0, 60))
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": "by-hand"}},
                "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                "endpoints": [{"addresses": [f"10.244.3.{each}"]} for each in addresses]}
        try:
            self.api.replace(body)
        except kube.Refused:
            self.api.create(body)

    def zone(self, zone=None):
        labels = {"topology.kubernetes.io/zone": zone or self.random.choice(["zone-a", "zone-b", "zone-c"])}
        self.api.patch(kube.path_of("Node", None, "node"), {"metadata": {"labels": labels}})

    def step(self):
        quietly(self.random.choices([self.readiness, self.service, self.slice, self.zone], [5, 4, 4, 1])[0])
        self.count += 1

    def end(self):
        for name in PODS:
            self.readiness(name, True)
        self.zone("zone-a")


def main():
    seed, stop = int(sys.argv[1]), sys.argv[2]
    pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.02
    churn = Churn(seed)
    while not os.path.exists(stop):
        churn.step()
        time.sleep(churn.random.random() * 2 * pause)
    churn.end()
    print(f"seed {seed}: {churn.count} changes")


main()
