#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An API server whose objects never change, for a program that only lists and watches them: kube-proxy of any version, also where a real
server would be too slow (an emulated machine). JSON over plain HTTP on 127.0.0.1.

usage: fixed_api.py PORT FILE       FILE: the objects, as YAML documents"""

import http.server
import json
import sys
import threading
import urllib.parse

import yaml

PLURALS = {"nodes": "Node", "services": "Service", "endpointslices": "EndpointSlice", "servicecidrs": "ServiceCIDR"}
VERSION = "1"


def field(item, path):
    for name in path.split("."):
        item = item.get(name, {})
    return item or ""


def selected(item, query):
    """Whether the item passes the selectors, of those forms that kube-proxy uses."""
    for each in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = each.partition("=")
        if path.endswith("!"):
            if field(item, path[:-1]) == value:
                return False
        elif field(item, path) != value:
            return False
    labels = item["metadata"].get("labels", {})
    for each in filter(None, query.get("labelSelector", "").split(",")):
        if not each.startswith("!"):
            raise ValueError(f"a label selector of another form: {each}")
        if each[1:] in labels:
            return False
    return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def event(self, kind, item):
        data = json.dumps({"type": kind, "object": item}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def watch(self, kind, api, items, query):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if query.get("sendInitialEvents") == "true":
            for item in items:
                self.event("ADDED", item)
            ends = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": VERSION}
            self.event("BOOKMARK", {"apiVersion": api, "kind": kind, "metadata": ends})
        self.wfile.flush()
        threading.Event().wait()

    def do_GET(self):
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        *api, plural, name = path.split("/") if path.split("/")[-2] in PLURALS else [*path.split("/"), ""]
        if plural not in PLURALS:
            return self.answer(404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404})
        kind = PLURALS[plural]
        items = [each for each in OBJECTS if each["kind"] == kind and selected(each, query)]
        version = "/".join(api[2:])
        if name:
            return self.answer(200, next(each for each in items if each["metadata"]["name"] == name))
        if query.get("watch") in ("true", "1"):
            return self.watch(kind, version, items, query)
        return self.answer(
            200, {"apiVersion": version, "kind": kind + "List", "metadata": {"resourceVersion": VERSION}, "items": items}
        )

    def do_POST(self):
        """Events: taken and forgotten."""
        self.answer(201, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))


def main():
    global OBJECTS
    with open(sys.argv[2], encoding="utf-8") as file:
        OBJECTS = list(yaml.safe_load_all(file))
    for number, each in enumerate(OBJECTS):
        each["metadata"].update(uid=f"00000000-0000-0000-0000-{number:012}", resourceVersion=VERSION)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
