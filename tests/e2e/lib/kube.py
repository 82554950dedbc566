# SPDX-License-Identifier: Apache-2.0
"""A small client of the API server for the end-to-end tests: as a module, and as a command for the scenarios.

usage: kube.py apply               server-side apply of the YAML or JSON documents on standard input
       kube.py check               the same as a dry run, with validation of every field
       kube.py pod NAME NODE IP4 IP6 LABEL=VALUE... [--not-ready]
                                   a pod as a kubelet reports it: running, with addresses, ready or not
       kube.py get PATH [--accept TYPE]      prints the response body; PATH begins with / or is KIND/[NAMESPACE/]NAME
       kube.py patch KIND/[NAMESPACE/]NAME MERGE_PATCH [--status]
       kube.py delete KIND/[NAMESPACE/]NAME [--grace SECONDS]
       kube.py token NAMESPACE/ACCOUNT       prints a token of that service account
       kube.py slices SERVICE COUNT SIZE     creates COUNT slices of a service, each with SIZE endpoints of its own
       kube.py rewrite SLICE FIRST LAST SIZE BYTES [gathered]
                                   changes a slice once for each number from FIRST to LAST; it has SIZE endpoints, of which the
                                   last changes each time (10.200.0.FIRST and so on), and an annotation of BYTES bytes; with
                                   gathered, each change waits until the proxy has gathered the previous ones
       kube.py ready               succeeds if the server is ready
E2E_KUBE is the directory of the cluster (server, ca.crt, admin.crt, admin.key; or token instead of the last two)."""

import http.client
import json
import os
import pathlib
import re
import ssl
import sys
import time
import urllib.parse

# kind: path of its API, plural name, whether it is namespaced
KINDS = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
    "Service": ("/api/v1", "services", True),
    "Endpoints": ("/api/v1", "endpoints", True),
    "Secret": ("/api/v1", "secrets", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "Event": ("/api/v1", "events", True),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "ServiceCIDR": ("/apis/networking.k8s.io/v1", "servicecidrs", False),
    "IPAddress": ("/apis/networking.k8s.io/v1", "ipaddresses", False),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "PodMonitor": ("/apis/monitoring.coreos.com/v1", "podmonitors", True),
    "PrometheusRule": ("/apis/monitoring.coreos.com/v1", "prometheusrules", True),
}
OWNER = "fieldManager=e2e"


class Refused(Exception):
    """The server's answer was an error; `code` is its HTTP status."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def path_of(kind, namespace, name=""):
    root, plural, inside = KINDS[kind]
    middle = f"/namespaces/{namespace or 'default'}" if inside else ""
    return f"{root}{middle}/{plural}" + (f"/{name}" if name else "")


def path_of_reference(reference):
    """The path of KIND/NAME or KIND/NAMESPACE/NAME; an API path is returned unchanged."""
    if reference.startswith("/"):
        return reference
    kind, *rest = reference.split("/")
    return path_of(kind, rest[0] if len(rest) == 2 else None, rest[-1])


class Api:
    """One connection, reopened after the server has closed it."""

    def __init__(self, directory=None, server=None):
        where = pathlib.Path(directory or os.environ["E2E_KUBE"])
        address = urllib.parse.urlsplit(server or (where / "server").read_text().strip())
        context = ssl.create_default_context(cafile=str(where / "ca.crt"))
        self.headers = {}
        if (where / "admin.crt").exists():
            context.load_cert_chain(str(where / "admin.crt"), str(where / "admin.key"))
        else:
            self.headers["Authorization"] = "Bearer " + (where / "token").read_text().strip()
        self.connection = http.client.HTTPSConnection(address.hostname, address.port, context=context, timeout=30)

    def request(self, method, path, body=None, content_type="application/json", accept="application/json"):
        """The body of a successful response. Raises Refused for any other response, and OSError if there is none."""
        headers = self.headers | {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        for attempt in (1, 2):
            try:
                self.connection.request(method, path, body, headers)
                answer = self.connection.getresponse()
                data = answer.read()
                break
            except (http.client.HTTPException, ConnectionError, BrokenPipeError) as error:
                self.connection.close()
                if attempt == 2:
                    raise OSError(str(error)) from error
            except OSError:
                self.connection.close()
                raise
        if answer.status >= 300:
            raise Refused(answer.status, data.decode(errors="replace")[:600])
        return data

    def json(self, method, path, body=None, content_type="application/json"):
        return json.loads(self.request(method, path, None if body is None else json.dumps(body), content_type))

    def get(self, path):
        return self.json("GET", path)

    def create(self, thing):
        meta = thing["metadata"]
        return self.json("POST", path_of(thing["kind"], meta.get("namespace")), thing)

    def replace(self, thing, part=""):
        meta = thing["metadata"]
        return self.json("PUT", path_of(thing["kind"], meta.get("namespace"), meta["name"]) + part, thing)

    def patch(self, path, change, part=""):
        return self.json("PATCH", path + part, change, "application/merge-patch+json")

    def delete(self, path, grace=None):
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        return self.json("DELETE", path, options)

    def apply(self, document, options=""):
        """`document` is text: the server accepts YAML, so no library is needed."""
        found = {key: re.search(rf'^\s*"?{key}"?:\s*"?([\w.:-]+)', document, re.M) for key in ("kind", "namespace")}
        name = re.search(r'^(?:metadata:.*\n(?:  .*\n)*?  name:|metadata: \{.*?name:|\s*"name":)\s*"?([\w.:-]+)', document, re.M)
        kind = found["kind"].group(1)
        namespace = found["namespace"].group(1) if found["namespace"] and KINDS[kind][2] else None
        path = path_of(kind, namespace, name.group(1))
        return json.loads(self.request("PATCH", f"{path}?{OWNER}&force=true&fieldValidation=Strict{options}", document.encode(),
                                   "application/apply-patch+yaml"))


def documents(text):
    """The YAML documents of a stream; a single JSON object is one document."""
    return [part for part in re.split(r"^---.*$", text, flags=re.M) if re.search(r"^[^#\s]", part, re.M)]


def pod(name, node, addresses, labels, namespace="default", ports=()):
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": node, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 30,
                 "containers": [{"name": "main", "image": "none", "ports": list(ports)}]},
    }


def pod_status(addresses, ready):
    """A Pod's status as a kubelet writes it."""
    state = "True" if ready else "False"
    return {"status": {
        "phase": "Running", "podIP": addresses[0], "podIPs": [{"ip": address} for address in addresses],
        "conditions": [{"type": kind, "status": state if kind in ("Ready", "ContainersReady") else "True"}
                       for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]}}


def run_pod(api, name, node, addresses, labels, ready=True, namespace="default", ports=()):
    path = path_of("Pod", namespace, name)
    try:
        api.get(path)
    except Refused:
        api.create(pod(name, node, addresses, labels, namespace, ports))
    api.patch(path, pod_status(addresses, ready), "/status")


def token(api, account):
    namespace, name = account.split("/")
    made = api.json("POST", path_of("ServiceAccount", namespace, name) + "/token",
                    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
    return made["status"]["token"]


def numbered_endpoint(number):
    """An endpoint with an address from 10.128.0.1 on, on nodes of the three zones in turn."""
    return {"addresses": [f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": f"worker-{'abc'[number % 3]}", "zone": f"zone-{'abc'[number % 3]}"}


def make_slices(api, service, count, size):
    """Slices whose endpoints are numbered consecutively."""
    for at in range(count):
        numbers = range(1 + at * size, 1 + (at + 1) * size)
        api.create({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": f"{service}-{at}", "namespace": "default",
                         "labels": {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "e2e"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [numbered_endpoint(each) for each in numbers]})


def await_gathered(size):
    """Waits until the proxy has gathered the previous changes: the server closes a stream that lags too far behind, and there would be no burst."""
    path = pathlib.Path(os.environ["E2E_KUBE"]) / "gathered"
    deadline = time.monotonic() + 120
    while not path.exists() or int(path.read_text()) < size:
        if time.monotonic() > deadline:
            sys.exit(f"the proxy has not gathered {size} bytes, but {path.read_text() if path.exists() else 'none'}")
        time.sleep(0.002)


def rewrite_slice(api, name, first, last, size, padding, pace=""):
    fixed = [numbered_endpoint(each) for each in range(1, size)]
    for at in range(first, last + 1):
        api.patch(path_of("EndpointSlice", "default", name), {
            "metadata": {"annotations": {"e2e/padding": str(at).ljust(padding, ".")}},
            "endpoints": [*fixed, {"addresses": [f"10.200.{at >> 8}.{at & 255}"]}]})
        if pace == "gathered":
            await_gathered((at - first + 1) * padding)


def option(words, name):
    """Removes `name VALUE` from words and returns VALUE."""
    if name not in words:
        return None
    at = words.index(name)
    value = words[at + 1]
    del words[at:at + 2]
    return value


def flag(words, name):
    if name in words:
        words.remove(name)
        return True
    return False


def command_apply(api, words, options=""):
    for document in documents(sys.stdin.read()):
        api.apply(document, options)


def command_pod(api, words):
    ready = not flag(words, "--not-ready")
    name, node, *rest = words
    addresses = [word for word in rest if "=" not in word]
    run_pod(api, name, node, addresses, dict(word.split("=", 1) for word in rest if "=" in word), ready)


def command_get(api, words):
    accept = option(words, "--accept") or "application/json"
    sys.stdout.buffer.write(api.request("GET", path_of_reference(words[0]), accept=accept))


def command_patch(api, words):
    part = "/status" if flag(words, "--status") else ""
    api.patch(path_of_reference(words[0]), json.loads(words[1]), part)


def command_delete(api, words):
    grace = option(words, "--grace")
    api.delete(path_of_reference(words[0]), None if grace is None else int(grace))


COMMANDS = {
    "apply": command_apply,
    "check": lambda api, words: command_apply(api, words, options="&dryRun=All"),
    "pod": command_pod,
    "get": command_get,
    "patch": command_patch,
    "delete": command_delete,
    "token": lambda api, words: print(token(api, words[0])),
    "slices": lambda api, words: make_slices(api, words[0], int(words[1]), int(words[2])),
    "rewrite": lambda api, words: rewrite_slice(api, words[0], *map(int, words[1:5]), *words[5:]),
    "ready": lambda api, _: api.request("GET", "/readyz"),
}


def main():
    words = sys.argv[1:]
    server = option(words, "--server")
    if not words or words[0] not in COMMANDS:
        sys.exit(__doc__)
    try:
        COMMANDS[words[0]](Api(server=server), words[1:])
    except (Refused, OSError) as error:
        sys.exit(f"kube.py {' '.join(words)}: {error}")


if __name__ == "__main__":
    main()
