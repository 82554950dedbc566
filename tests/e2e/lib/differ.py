# SPDX-License-Identifier: Apache-2.0
"""Differential test: changes objects at random, and compares the answers of two nodes, one with kube-proxy and one with Sluice.

usage: differ.py SEED STEPS PROXY_LAB SLUICE_LAB     (names of the labs, whose namespaces are LAB-client and so on; their
cgroups are $E2E_CGROUPS/LAB; E2E_KUBE as for kube.py)

After each step every client of both labs sends requests to the same frontends. The test compares which backends answer, which client
address they see, what is refused and what times out. A difference that lasts for some seconds is a failure, unless it is one of ALLOWED,
whose keys are choices or rows in docs/semantics.md. An allowed difference that does not occur is a failure too, except those of RARE."""

import collections
import json
import pathlib
import random
import subprocess
import sys
import time
import os

import kube

CLIENTS = ("client", "pod", "node")
OWN = {"client": {"10.0.0.100", "fd00:10::100"}, "pod": {"10.244.1.10", "fd00:10:244:1::10"},
       "node": {"10.0.0.10", "fd00:10::10", "127.0.0.1", "::1"}}
NODE = OWN["node"]
LOCAL = {"10.244.1.10", "fd00:10:244:1::10"} | NODE
TRIES, MORE, SETTLE = 10, 60, 6.0
ZONES = ["zone-a", "zone-b", "zone-c"]
ENDPOINTS = [("10.244.1.10", "fd00:10:244:1::10", "node", "zone-a"),
             ("10.244.2.10", "fd00:10:244:2::10", "worker-a", "zone-a"),
             ("10.244.3.10", "fd00:10:244:3::10", "worker-b", "zone-b"),
             ("10.244.4.10", "fd00:10:244:4::10", "worker-c", "zone-c"),
             ("10.0.0.10", "fd00:10::10", "node", "zone-a"),
             ("10.0.0.22", "fd00:10::22", "worker-b", "zone-b")]
TARGETS = {"TCP": [8080, 8081], "UDP": [5353, 5354]}
UNKNOWN_PORT = 7777
UNALLOCATED = ["10.96.255.254", "fd00:10:96::fffe"]
MARK4 = "10.96.0.99"
PROXY_NAME = "service.kubernetes.io/service-proxy-name"

ALLOWED = {
    "B": "node ports on localhost",
    "C": "the client's own address is kept if the reply returns through this node anyway",
}
RARE = {
    "45": "a UDP service was removed, or belongs to another proxy now: with kube-proxy, conntrack still translates source ports that it has seen",
    "32": "a pod also reaches itself if it is an endpoint without a nodeName; kube-proxy's nftables treats only endpoints on its node as hairpins",
}


def say(*words):
    print(*words, flush=True)


# ---- Requests ----

class Prober:
    """A prober.py that runs in a namespace (and cgroup) of a lab."""

    def __init__(self, lab, who):
        prober = str(pathlib.Path(__file__).with_name("prober.py"))
        command = ["nsenter", f"--net=/run/netns/{lab}-{who}", "python3", prober, "ask"]
        group = pathlib.Path(os.environ["E2E_CGROUPS"]) / lab / who

        def enter():
            if group.is_dir():
                (group / "cgroup.procs").write_text("0")

        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=enter)

    def send(self, questions):
        self.process.stdin.write(json.dumps(questions) + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())


class Question(collections.namedtuple("Question", "client protocol address port kind sticky")):
    """A request to compare. kind: ClusterIP, NodePort, LoadBalancer, ExternalIP, localhost, health, unknown or unallocated. sticky: with
    affinity."""

    def __str__(self):
        where = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.client} → {self.kind} {self.protocol} {where}:{self.port}"


class Labs:
    def __init__(self, names):
        self.probers = {(lab, who): Prober(lab, who) for lab in names for who in CLIENTS}
        self.names = names

    def ask(self, questions, times):
        """Sends each question that many times from both labs; returns {lab: {question: {answer: count}}}."""
        by_client = {who: [each for each in questions if each.client == who] for who in CLIENTS}
        for (_, who), prober in self.probers.items():
            prober.send([[each.protocol, each.address, each.port, times] for each in by_client[who]])
        answers = {lab: {} for lab in self.names}
        for (lab, who), prober in self.probers.items():
            answers[lab] |= dict(zip(by_client[who], prober.receive()))
        return answers


def source_of(client, peer):
    return "itself" if peer in OWN[client] else "node" if peer in NODE else peer


class Seen:
    """The properties of one side's answers to a question in which both sides must agree."""

    def __init__(self):
        self.verdicts = set()
        self.backends = collections.defaultdict(set)
        self.tries = collections.Counter()  # by verdict

    def add(self, question, answers):
        for answer, times in answers.items():
            words = answer.split()
            if len(words) == 3:
                verdict = "answered"
                self.backends[f"{words[0]}:{words[1]}"].add(source_of(question.client, words[2]))
            else:
                # If nothing serves an address, the kernel tries to resolve a neighbour, and reports a failure that occurs
                # within the timeout.
                verdict = "timeout" if answer == "EHOSTUNREACH" else answer
            self.verdicts.add(verdict)
            self.tries[verdict] += times

    def __str__(self):
        backends = ", ".join(f"{name} seen as {'/'.join(sorted(peers))}" for name, peers in sorted(self.backends.items()))
        return "/".join(f"{verdict} {times}" for verdict, times in sorted(self.tries.items())) + (f": {backends}" if backends else "")


# ---- Comparison ----

def meets_itself(question, theirs, ours, nameless):
    """Whether a pod used a service of which it is an endpoint without a nodeName: kube-proxy's request to itself times out."""
    if question.client != "pod" or not OWN["pod"] & nameless or ours.verdicts != {"answered"}:
        return False
    others = {name for name in ours.backends if name.rsplit(":", 1)[0] not in OWN["pod"]}
    # With affinity the two sides may choose different backends.
    return theirs.verdicts in ({"timeout"}, {"answered", "timeout"}) and (question.sticky or others == set(theirs.backends))


def outlives(question, theirs, ours, ended):
    """Whether the UDP service no longer belongs to this proxy: a reused source port matches the flow of its first use."""
    return (question.protocol == "UDP" and (question.address, question.port) in ended and "answered" not in ours.verdicts and
            theirs.verdicts == ours.verdicts | {"answered"})


def letter_of(question, theirs, ours, world):
    """The choice or row of docs/semantics.md that allows this difference; None if there is no difference, "" if none allows it."""
    if meets_itself(question, theirs, ours, world.nameless):
        return "32"
    if outlives(question, theirs, ours, world.ended):
        return "45"
    if theirs.verdicts == {"answered", "timeout"}:
        theirs.verdicts = {"answered"}  # with kube-proxy, conntrack occasionally loses a request
    if theirs.verdicts != ours.verdicts:
        if question.kind == "localhost" and theirs.verdicts == {"refused"}:
            return "B"
        return ""
    if question.sticky:
        # With affinity each side uses only one backend.
        return None if len(theirs.backends) <= 1 and len(ours.backends) <= 1 else ""
    if set(theirs.backends) != set(ours.backends):
        return ""
    letter = None
    for name, peers in ours.backends.items():
        if peers == theirs.backends[name]:
            continue
        local = name.rsplit(":", 1)[0] in LOCAL
        if peers == {"itself"} and (question.client != "client" or local):
            letter = "C"
        else:
            return ""
    return letter


class Comparison:
    def __init__(self, labs):
        self.labs = labs
        self.letters = collections.Counter()
        self.questions = 0
        self.nameless = set()  # addresses of endpoints without a nodeName
        self.ended = set()  # address and port of services that were removed, or belong to another proxy now

    def sides(self, questions, times, before=None):
        """Asks the questions; returns a Seen for each lab and question."""
        answers = self.labs.ask(questions, times)
        seen = before or {(lab, each): Seen() for lab in self.labs.names for each in questions}
        for lab in self.labs.names:
            for question in questions:
                seen[lab, question].add(question, answers[lab][question])
        self.questions += len(questions)
        return seen

    def letters_of(self, questions, seen):
        """The result of letter_of() for each question."""
        theirs, ours = self.labs.names
        return {each: letter_of(each, seen[theirs, each], seen[ours, each], self) for each in questions}

    def run(self, questions):
        """Texts of the questions to which the answers of both sides still differ after repetitions."""
        seen = self.sides(questions, TRIES)
        letters = self.letters_of(questions, seen)
        until = time.monotonic() + SETTLE
        wrong = [each for each in questions if letters[each] == ""]
        while wrong:
            # Few requests reach few backends, and a change may not be in effect yet.
            again = self.sides(wrong, MORE)
            letters |= self.letters_of(wrong, again)
            seen |= again
            wrong = [each for each in wrong if letters[each] == ""]
            if time.monotonic() > until:
                break
        for each, letter in letters.items():
            if letter and letter not in self.letters:
                say(f"choice {letter}, for example: {self.both(each, seen)}")
            self.letters.update([letter] if letter else [])
        return [self.both(each, seen) for each in wrong]

    def both(self, question, seen):
        """The question and both answers as readable text."""
        theirs, ours = self.labs.names
        return f"{question}\n    kube-proxy: {seen[theirs, question]}\n    Sluice:     {seen[ours, question]}"


# ---- Changes ----

class World:
    """The objects in the API, and random changes to them. s0 to s3 are services, each with up to three slices."""

    def __init__(self, api, seed):
        self.api = api
        self.random = random.Random(seed)
        self.steps = [(6, self.service), (8, self.endpoints), (3, self.policies), (2, self.ports), (2, self.exposure),
                      (1, self.affinity), (2, self.ranges), (1, self.label), (2, self.type), (1, self.headless),
                      (1, self.remove), (1, self.zone),
                      (2, self.remove_slice)]

    def name(self):
        return f"s{self.random.randrange(4)}"

    def path(self, name):
        return kube.path_of("Service", "default", name)

    def some(self, things, least=0):
        return self.random.sample(things, self.random.randint(least, len(things)))

    def port_list(self):
        ports = []
        for at in range(self.random.randint(1, 2)):
            protocol = self.random.choice(["TCP", "TCP", "UDP"])
            ports.append({"name": f"p{at}", "port": 80 + at, "protocol": protocol, "targetPort": 1})
        return ports

    def external(self, name, family):
        return {4: f"203.0.113.{10 + int(name[1])}", 6: f"2001:db8:113::{10 + int(name[1])}"}[family]

    def service(self):
        """Creates a service, or replaces the one of this name."""
        name = self.name()
        try:
            self.api.delete(self.path(name))
        except kube.Refused:
            pass
        spec = {"type": self.random.choice(["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"]),
                "ipFamilyPolicy": self.random.choice(["SingleStack", "RequireDualStack", "RequireDualStack"]),
                "ports": self.port_list()}
        self.api.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
                         "spec": spec})
        self.exposure(name)
        self.policies(name)
        if not self.slices(name):
            self.endpoints(name)
        return f"service {name}: {spec}"

    def policies(self, name=None):
        name = name or self.name()
        change = {"internalTrafficPolicy": self.random.choice(["Cluster", "Cluster", "Local"])}
        if self.api.get(self.path(name))["spec"]["type"] != "ClusterIP":
            change["externalTrafficPolicy"] = self.random.choice(["Cluster", "Local"])
        self.api.patch(self.path(name), {"spec": change})
        return f"{name}: {change}"

    def ports(self):
        name = self.name()
        ports = self.port_list()
        self.api.patch(self.path(name), {"spec": {"ports": ports}})
        return f"{name}: {ports}"

    def exposure(self, name=None):
        """Random type, external IPs and load-balancer addresses."""
        name = name or self.name()
        number = int(name[1])
        spec = {"externalIPs": self.some([f"203.0.113.{110 + number}", f"2001:db8:113::{110 + number}"])}
        kind = self.api.get(self.path(name))["spec"]["type"]
        self.api.patch(self.path(name), {"spec": spec})
        if kind == "LoadBalancer":
            ingress = [{"ip": address, "ipMode": self.random.choice(["VIP", "VIP", "Proxy"])}
                       for address in self.some([f"203.0.113.{10 + number}", f"2001:db8:113::{10 + number}"])]
            self.api.patch(self.path(name), {"status": {"loadBalancer": {"ingress": ingress}}}, "/status")
            spec = spec | {"ingress": ingress}
        return f"{name}: {spec}"

    def affinity(self):
        name = self.name()
        change = {"sessionAffinity": self.random.choice(["None", "ClientIP"])}
        self.api.patch(self.path(name), {"spec": change | {"sessionAffinityConfig": None}})
        return f"{name}: {change}"

    def ranges(self):
        name = self.name()
        ranges = self.some(["10.0.0.100/32", "10.244.0.0/16", "10.0.0.10/32", "198.51.100.0/24", "fd00:10::/64",
                            "fd00:10:244::/48", "2001:db8:5::/64"])
        self.api.patch(self.path(name), {"spec": {"loadBalancerSourceRanges": ranges}})
        return f"{name}: {ranges}"

    def label(self):
        name = self.name()
        value = self.random.choice([None, None, "another"])
        self.api.patch(self.path(name), {"metadata": {"labels": {PROXY_NAME: value}}})
        return f"{name}: service-proxy-name {value}"

    def type(self):
        name = self.name()
        change = {"type": self.random.choice(["ClusterIP", "NodePort", "LoadBalancer"])}
        self.api.patch(self.path(name), {"spec": change})
        return f"{name}: {change}"

    def headless(self):
        """Adds or removes the label that hides a slice from proxies (SEM-2)."""
        names = self.slices(self.name())
        if not names:
            return "no slice"
        name, value = self.random.choice(names), self.random.choice(["", None])
        self.api.patch(kube.path_of("EndpointSlice", "default", name),
                       {"metadata": {"labels": {"service.kubernetes.io/headless": value}}})
        return f"slice {name}: headless {value!r}"

    def remove(self):
        name = self.name()
        self.api.delete(self.path(name))
        return f"{name} deleted"

    def slices(self, name):
        found = self.api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                             f"?labelSelector=kubernetes.io/service-name%3D{name}")
        return [each["metadata"]["name"] for each in found["items"]]

    def endpoint(self, address, node, zone, hints):
        ready = self.random.random() < 0.7
        conditions = self.random.choice([{"ready": ready}, {"ready": ready}, {},
                                         {"ready": False, "serving": True, "terminating": True},
                                         {"ready": False, "serving": False, "terminating": True}])
        made = {"addresses": [address], "conditions": conditions, "nodeName": node, "zone": zone}
        # Not for the node's own address: external clients do not reach that yet if the endpoint has no nodeName.
        if self.random.random() < 0.1 and address not in NODE:
            del made["nodeName"], made["zone"]
        if hints == "zones":
            made["hints"] = {"forZones": [{"name": each} for each in self.some(ZONES, 1)]}
        if hints == "nodes":
            made["hints"] = {"forNodes": [{"name": node}], "forZones": [{"name": zone}]}
        return made

    def siblings(self, name, other_than):
        """{address: endpoint} of the service's other slices."""
        found = self.api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                             f"?labelSelector=kubernetes.io/service-name%3D{name}")
        return {endpoint["addresses"][0]: endpoint for each in found["items"] if each["metadata"]["name"] != other_than
                for endpoint in each["endpoints"] or []}

    def beside(self, made, sibling):
        """The endpoint, or its copy in another slice if the two conflict: which one counts is specified only if exactly one is terminating
        (SEM-4)."""
        if sibling is None:
            return made
        ends, other_ends = (each.get("conditions", {}).get("terminating", False) for each in (made, sibling))
        return made if ends != other_ends else sibling

    def ports_of_slice(self, name):
        """Slice ports for both port names, with the service's protocols."""
        wanted = {}
        try:
            wanted = {each["name"]: each["protocol"] for each in self.api.get(self.path(name))["spec"]["ports"]}
        except kube.Refused:
            pass
        ports = []
        for port in ("p0", "p1"):
            protocol = wanted.get(port, "TCP")
            ports.append({"name": port, "protocol": protocol, "port": self.random.choice(TARGETS[protocol])})
        return ports

    def endpoints(self, name=None):
        """Writes a new version of one slice of a service."""
        name = name or self.name()
        family = self.random.choice([4, 4, 6])
        slice_name = f"{name}-{family}-{self.random.randrange(2)}"
        siblings = self.siblings(name, slice_name)
        hints = self.random.choice([None, None, "zones", "nodes"])
        made = [self.endpoint(each[0 if family == 4 else 1], each[2], each[3], hints) for each in self.some(ENDPOINTS)]
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": slice_name, "namespace": "default",
                             "labels": {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "e2e"}},
                "addressType": f"IPv{family}", "ports": self.ports_of_slice(name),
                "endpoints": [self.beside(each, siblings.get(each["addresses"][0])) for each in made]}
        try:
            self.api.replace(body)
        except kube.Refused:
            self.api.create(body)
        return f"slice {slice_name}: {json.dumps(body['ports'])} {json.dumps(body['endpoints'])}"

    def remove_slice(self):
        name = self.name()
        names = self.slices(name)
        if names:
            self.api.delete(kube.path_of("EndpointSlice", "default", self.random.choice(names)))
        return f"slice of {name} deleted"

    def zone(self, zone=None):
        zone = zone or self.random.choice(ZONES + [None])
        self.api.patch(kube.path_of("Node", None, "node"), {"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}})
        time.sleep(1.5)  # nothing shows when both proxies have seen a change of a Node
        return f"node in {zone}"

    def step(self):
        """Makes one change, and returns its description."""
        while True:
            weights = [weight for weight, _ in self.steps]
            try:
                return self.random.choices([step for _, step in self.steps], weights)[0]()
            except kube.Refused as refused:
                if refused.code not in (404, 422, 409):
                    raise


class Mark:
    """A separate service whose port and endpoint change after each step: once these changes are in effect, all earlier ones are too."""

    def __init__(self, api, labs):
        self.api, self.labs, self.count = api, labs, 0
        api.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mark", "namespace": "default"},
                    "spec": {"clusterIP": MARK4, "ports": [{"name": "m", "port": 1, "protocol": "TCP", "targetPort": 1}]}})

    def slice(self, port):
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": "mark", "namespace": "default",
                             "labels": {"kubernetes.io/service-name": "mark", "endpointslice.kubernetes.io/managed-by": "e2e"}},
                "addressType": "IPv4", "ports": [{"name": "m", "port": port, "protocol": "TCP"}],
                "endpoints": [{"addresses": ["10.244.2.10"], "conditions": {"ready": True}}]}
        try:
            self.api.replace(body)
        except kube.Refused:
            self.api.create(body)

    def await_effect(self):
        """Changes the mark, and waits until both labs serve the change."""
        self.count += 1
        target = TARGETS["TCP"][self.count % 2]
        self.slice(target)
        port = 1000 + self.count
        self.api.patch(kube.path_of("Service", "default", "mark"),
                       {"spec": {"ports": [{"name": "m", "port": port, "protocol": "TCP", "targetPort": 1}]}})
        question = Question("client", "TCP", MARK4, port, "ClusterIP", False)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            answers = self.labs.ask([question], 1)
            if all(any(word.startswith(f"10.244.2.10 {target} ") for word in answers[lab][question])
                   for lab in self.labs.names):
                return
            time.sleep(0.05)
        raise SystemExit(f"the change of the mark was not in effect after 20 s: {answers}")


def questions_of(services):
    """A question from every client to every frontend of the services."""
    frontends = set()
    for service in services:
        spec, sticky = service["spec"], service["spec"].get("sessionAffinity") == "ClientIP"
        sticky &= PROXY_NAME not in service["metadata"].get("labels", {})
        ingress = [each for each in service.get("status", {}).get("loadBalancer", {}).get("ingress", []) if "ip" in each]
        for port in spec["ports"]:
            protocol, number = port["protocol"], port["port"]
            frontends |= {(protocol, each, number, "ClusterIP", sticky) for each in spec["clusterIPs"]}
            frontends |= {(protocol, each, number, "ExternalIP", sticky) for each in spec.get("externalIPs", [])}
            frontends |= {(protocol, each["ip"], number, "LoadBalancer", sticky) for each in ingress}
            if port.get("nodePort"):
                frontends |= {(protocol, each, port["nodePort"], "NodePort", sticky)
                              for each in ("10.0.0.10", "fd00:10::10")}
                frontends.add((protocol, "127.0.0.1", port["nodePort"], "localhost", sticky))
        if spec.get("healthCheckNodePort"):
            frontends |= {("HTTP", each, spec["healthCheckNodePort"], "health", False)
                          for each in ("10.0.0.10", "fd00:10::10")}
        frontends |= {("TCP", each, UNKNOWN_PORT, "unknown", False) for each in spec["clusterIPs"][:1]}
    frontends |= {("TCP", each, 80, "unallocated", False) for each in UNALLOCATED}
    return [Question(who, *each) for each in sorted(frontends) for who in CLIENTS
            if who == {"localhost": "node", "health": "client"}.get(each[3], who)]


def changed_services(api, before):
    """The test's present services by name; and a list of these and of the removed services of `before`, which must not answer."""
    now = {each["metadata"]["name"]: each for each in api.get("/api/v1/namespaces/default/services")["items"]
           if each["metadata"]["name"].startswith("s")}
    return now, list(now.values()) + [each for name, each in before.items() if name not in now]


def nameless(api):
    """The addresses of endpoints without a nodeName."""
    slices = api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")["items"]
    return {endpoint["addresses"][0] for each in slices for endpoint in each.get("endpoints") or [] if not endpoint.get("nodeName")}


def ended(services, present):
    """The former frontends of services that were removed or belong to another proxy now."""
    places = set()
    for service in services:
        if service["metadata"]["name"] in present and PROXY_NAME not in service["metadata"].get("labels", {}):
            continue
        places |= {question[2:4] for question in questions_of([service])}
    return places


def main():
    seed, steps = int(sys.argv[1]), int(sys.argv[2])
    labs = Labs(sys.argv[3:5])
    api = kube.Api()
    world, comparison, mark = World(api, seed), Comparison(labs), Mark(api, labs)
    before, wrong, history = {}, 0, []
    say(f"seed {seed}, {steps} steps")
    for step in range(steps):
        what = world.step()
        history.append(f"step {step}, {what}")
        mark.await_effect()
        before, services = changed_services(api, before)
        comparison.nameless, comparison.ended = nameless(api), ended(services, before)
        differences = comparison.run(questions_of(services))
        if differences:
            wrong += len(differences)
            say("\n".join(each[:200] for each in history))  # the steps since the last difference
            history.clear()
            labels = api.get(kube.path_of("Node", None, "node"))["metadata"]["labels"]
            say(f"  different, with the node in {labels.get('topology.kubernetes.io/zone')}:")
            for each in differences:
                say("  " + each)
            for service in services:
                say("   ", json.dumps({key: service.get(key) for key in ("spec", "status")}))
                for name in world.slices(service["metadata"]["name"]):
                    slice_ = api.get(kube.path_of("EndpointSlice", "default", name))
                    say("     ", name, json.dumps([slice_.get("ports"), slice_.get("endpoints")]))
            if wrong > 20:
                break
    unused = sorted(set(ALLOWED) - set(comparison.letters))
    known = dict(sorted(comparison.letters.items()))
    say(f"seed {seed}: {comparison.questions} questions, {wrong} differences; by choice: {known}")
    if unused:
        say(f"choices that never came up: {unused}")
    sys.exit(1 if wrong or unused else 0)


main()
