# SPDX-License-Identifier: Apache-2.0
"""Renders the subset of kustomizations that ours use: resources (files and other kustomizations), images, and JSON patches
(RFC 6902: add, replace) of targets by kind and name. Anything else fails, so that no kustomization is rendered
differently from kubectl. usage: kustomize.py DIRECTORY"""

import json
import pathlib
import sys

import yaml

KNOWN = {"apiVersion", "kind", "resources", "images", "patches"}


def parent_of(document, path):
    """The list or mapping that contains the last step of a JSON pointer, and that step."""
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    for step in steps:
        document = document[int(step) if isinstance(document, list) else step]
    return document, last


def patch(document, operation):
    parent, last = parent_of(document, operation["path"])
    if operation["op"] == "add" and isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else int(last), operation["value"])
    elif operation["op"] in ("add", "replace"):
        key = int(last) if isinstance(parent, list) else last
        if operation["op"] == "replace":
            parent[key]  # what is replaced must be there
        parent[key] = operation["value"]
    else:
        sys.exit(f"kustomize.py: op {operation['op']} is not known here")


def containers_of(document):
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    return spec.get("initContainers", []) + spec.get("containers", [])


def set_images(documents, images):
    names = {image["name"]: f"{image['newName']}:{image['newTag']}" for image in images}
    for container in (each for document in documents for each in containers_of(document)):
        name = container["image"].rsplit(":", 1)[0]
        container["image"] = names.get(name, container["image"])


def load(path):
    path = path.resolve()
    if path.is_dir():
        return render(path)
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def render(directory):
    spec = yaml.safe_load((directory / "kustomization.yaml").read_text())
    if unknown := set(spec) - KNOWN:
        sys.exit(f"kustomize.py: {directory}: {', '.join(sorted(unknown))} is not known here")
    documents = [document for name in spec["resources"] for document in load(directory / name)]
    set_images(documents, spec.get("images", []))
    for entry in spec.get("patches", []):
        target = entry["target"]
        found = [each for each in documents if each["kind"] == target["kind"] and each["metadata"]["name"] == target["name"]]
        if len(found) != 1:
            sys.exit(f"kustomize.py: {directory}: {len(found)} objects are {target['kind']} {target['name']}")
        for operation in yaml.safe_load(entry["patch"]):
            patch(found[0], operation)
    return documents


if __name__ == "__main__":
    # JSON is valid YAML, and leaves no doubt about which values are strings.
    print("\n---\n".join(json.dumps(document, indent=1) for document in render(pathlib.Path(sys.argv[1]))))
