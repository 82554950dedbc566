# SPDX-License-Identifier: Apache-2.0
"""Replaces the DaemonSet controller, the scheduler, a kubelet and a container runtime for one node, as far as the guides need them: runs the
containers of kube-system's DaemonSets and of static pods, with their mounts, capabilities and environment (container.py), runs their readiness
probes, and reports DaemonSets' status and Pods. Images: .../sluice:... is the root in $KUBELET/image, .../kube-proxy:... the real one.

usage: kubelet.py NODE    in the node's namespaces and cgroup; $E2E_KUBE as for kube.py, $API the server, $KUBELET a directory of its own with
                          image/ in it, $LAB_PINS, $LAB_CGROUP, $KUBE_PROXY_CONFIG; $KUBELET/POD.exec has a pod's command wrapper,
                          POD.running the name of the container that runs"""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import yaml

import kube

HERE = pathlib.Path(__file__).parent
KUBELET, PINS, CGROUP = pathlib.Path(os.environ["KUBELET"]), os.environ["LAB_PINS"], os.environ["LAB_CGROUP"]
STATIC = pathlib.Path("/etc/kubernetes/manifests")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
NODE_ADDRESS = "10.0.0.10"


def host_path(path):
    """The lab's path in place of a host path, so that nothing else on this machine is affected."""
    own = {"/sys/fs/bpf": PINS, "/sys/fs/cgroup": str(pathlib.Path(CGROUP).parent), "/var/lib/sluice": str(KUBELET / "state")}
    where = own.get(path, path)
    os.makedirs(where, exist_ok=True)
    return where


class Pod:
    """A pod: its spec and its processes."""

    def __init__(self, api, name, template, account):
        self.api, self.name, self.template, self.account = api, name, template, account
        self.spec = template["spec"]
        self.waiting = list(self.spec.get("initContainers", []))
        self.process, self.has_started = None, False
        self.api_pod()

    def api_pod(self):
        labels = self.template["metadata"].get("labels", {})
        kube.run_pod(self.api, self.name, sys.argv[1], [NODE_ADDRESS], labels, ready=False, namespace="kube-system")

    def source(self, volume):
        if "hostPath" in volume:
            return host_path(volume["hostPath"]["path"])
        directory = KUBELET / f"{self.name}-{volume['name']}"
        directory.mkdir(exist_ok=True)
        try:
            data = self.api.get(kube.path_of("ConfigMap", "kube-system", volume["configMap"]["name"]))["data"]
        except kube.Refused:
            data = {}  # optional
        for name, text in data.items():
            (directory / name).write_text(text)
        return str(directory)

    def account_mount(self):
        if not self.spec.get("automountServiceAccountToken", bool(self.account)):
            return []
        directory = KUBELET / f"{self.name}-account"
        directory.mkdir(exist_ok=True)
        (directory / "token").write_text(kube.token(self.api, f"kube-system/{self.account}"))
        (directory / "ca.crt").write_bytes((pathlib.Path(os.environ["E2E_KUBE"]) / "ca.crt").read_bytes())
        (directory / "namespace").write_text("kube-system")
        return ["--mount", f"{directory}:{ACCOUNT}:ro"]

    def mounts(self, container):
        volumes = {each["name"]: each for each in self.spec.get("volumes", [])}
        words = ["--mount", "/proc:/proc", "--mount", "/sys:/sys:ro", "--mount", "/proc/sys:/proc/sys:ro"]
        for each in container.get("volumeMounts", []):
            options = (":ro" if each.get("readOnly") else "") + (":slave" if each.get("mountPropagation") == "HostToContainer" else "")
            words += ["--mount", f"{self.source(volumes[each['name']])}:{each['mountPath']}{options}"]
        return words + self.account_mount()

    def environment(self, container):
        found = {"PATH": os.environ["PATH"], "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        for each in container.get("env", []):
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                found[each["name"]] = sys.argv[1]
            elif "configMapKeyRef" in source:
                config = self.api.get(kube.path_of("ConfigMap", "kube-system", source["configMapKeyRef"]["name"]))
                found[each["name"]] = config["data"][source["configMapKeyRef"]["key"]]
            else:
                found[each["name"]] = each["value"]
        return found

    def run(self, container):
        log = open(KUBELET / f"{self.name}.log", "ab")
        if re.search(r"kube-proxy:", container["image"]):
            return subprocess.Popen([os.environ["PARTNERS"] + "/kube-proxy", "--config", os.environ["KUBE_PROXY_CONFIG"]], stdout=log, stderr=log)
        environment = self.environment(container)
        arguments = [re.sub(r"\$\((\w+)\)", lambda found: environment[found.group(1)], each) for each in container.get("args", [])]
        # On a real node the agent serves all pods; here only the lab's.
        arguments = [each.replace("--cgroup=/host/cgroup", "--cgroup=/host/cgroup/" + pathlib.Path(CGROUP).name) for each in arguments]
        capabilities = ",".join(container["securityContext"]["capabilities"]["add"])
        runtime = [sys.executable, str(HERE / "container.py"), str(KUBELET / "image"), capabilities, *self.mounts(container), "--"]
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *runtime]
        (KUBELET / f"{self.name}.exec").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (KUBELET / f"{self.name}.running").write_text(container["name"])
        return subprocess.Popen([*runtime, "/usr/bin/sluice", *arguments], env=environment, stdout=log, stderr=log)

    def start_next(self):
        """Starts the next process: init containers until they succeed, then the container; restarts it if it ends."""
        code = self.process.poll() if self.process else None
        if self.process and code is None:
            return
        if self.process and self.waiting and code == 0:
            self.waiting.pop(0)
        self.process = self.run(self.waiting[0] if self.waiting else self.spec["containers"][0])

    def is_starting(self):
        """Whether the startup probe, a command in the container, has not succeeded yet."""
        probe = self.spec["containers"][0].get("startupProbe", {}).get("exec")
        if probe and not self.has_started:
            words = (KUBELET / f"{self.name}.exec").read_bytes().decode().split("\0")[:-1]
            self.has_started = subprocess.run([*words, *probe["command"]], capture_output=True, timeout=5).returncode == 0
        return bool(probe) and not self.has_started

    def is_ready(self):
        if self.waiting or self.process is None or self.process.poll() is not None or self.is_starting():
            return False
        probe = self.spec["containers"][0].get("readinessProbe", {}).get("httpGet")
        if not probe:
            return True
        connection = http.client.HTTPConnection(NODE_ADDRESS, probe["port"], timeout=1)
        try:
            connection.request("GET", probe["path"])
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(self.spec.get("terminationGracePeriodSeconds", 30))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.api.delete(kube.path_of("Pod", "kube-system", self.name), grace=0)
        for file in ("exec", "running"):
            (KUBELET / f"{self.name}.{file}").unlink(missing_ok=True)


class Kubelet:
    def __init__(self):
        self.api = kube.Api(server=os.environ["API"])
        self.node = self.api.get(kube.path_of("Node", None, sys.argv[1]))
        self.pods, self.reported = {}, {}

    def is_chosen(self, template):
        wanted = template["spec"].get("nodeSelector", {})
        return wanted.items() <= self.node["metadata"]["labels"].items()

    def wanted(self, sets):
        found = {f"{each['metadata']['name']}-{sys.argv[1]}": each["spec"]["template"] for each in sets if self.is_chosen(each["spec"]["template"])}
        for file in sorted(STATIC.glob("*.yaml")):
            pod = yaml.safe_load(file.read_text())
            found[f"{pod['metadata']['name']}-static-{sys.argv[1]}"] = {"metadata": pod["metadata"], "spec": pod["spec"]}
        return found

    def follow(self, wanted):
        for name in [name for name, pod in self.pods.items() if wanted.get(name) != pod.template]:
            self.pods.pop(name).end()
        for name in wanted.keys() - self.pods.keys():
            self.pods[name] = Pod(self.api, name, wanted[name], wanted[name]["spec"].get("serviceAccountName"))
        for pod in self.pods.values():
            pod.start_next()

    def report(self, each):
        name = each["metadata"]["name"]
        pod = self.pods.get(f"{name}-{sys.argv[1]}")
        count, ready = int(pod is not None), int(pod is not None and pod.is_ready())
        status = {"observedGeneration": each["metadata"]["generation"], "desiredNumberScheduled": count, "currentNumberScheduled": count,
                  "updatedNumberScheduled": count, "numberMisscheduled": 0, "numberReady": ready, "numberAvailable": ready}
        if self.reported.get(name) != status:
            self.api.patch(kube.path_of("DaemonSet", "kube-system", name), {"status": status}, "/status")
            self.reported[name] = status

    def turn(self):
        sets = self.api.get(kube.path_of("DaemonSet", "kube-system"))["items"]
        self.follow(self.wanted(sets))
        self.reported = {name: status for name, status in self.reported.items() if any(each["metadata"]["name"] == name for each in sets)}
        for each in sets:
            self.report(each)


def main():
    kubelet = Kubelet()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            try:
                kubelet.turn()
            except kube.Refused as error:
                print(f"kubelet.py: {error}", flush=True)  # an object was deleted meanwhile
            time.sleep(0.2)
    finally:
        for pod in kubelet.pods.values():
            pod.end()


main()
