# SPDX-License-Identifier: Apache-2.0
"""Normalizes the objects of YAML on standard input: sorted by kind and name, with lists of named items sorted by name, and keys in order.
Annotations that only Helm reads (helm.sh/…) are left out."""

import json
import sys

import yaml


def key(item):
    """The key that identifies the items of a list; None if their position does."""
    return next((str(item[name]) for name in ("mountPath", "name") if name in item), None)


def normalized(value):
    if isinstance(value, dict):
        return {name: normalized(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        items = [normalized(each) for each in value]
        named = all(isinstance(each, dict) and key(each) for each in items)
        return sorted(items, key=key) if named else items
    return value


def without_helm(document):
    notes = document["metadata"].get("annotations", {})
    for name in [name for name in notes if name.startswith("helm.sh/")]:
        del notes[name]
    if not notes:
        document["metadata"].pop("annotations", None)
    return document


found = [normalized(without_helm(each)) for each in yaml.safe_load_all(sys.stdin) if each]
for each in sorted(found, key=lambda document: (document["kind"], document["metadata"]["name"])):
    print(json.dumps(each, indent=1))
