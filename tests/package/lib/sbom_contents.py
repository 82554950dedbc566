# SPDX-License-Identifier: Apache-2.0
"""Checks the image's contents against its SBOM, by other means than scripts/lib/sbom.py: the dynamic linker's list, each file's
bytes on this machine, and dpkg's database. usage: sbom_contents.py ROOT SBOM; of an image of this machine's architecture.

Fails on a file whose package is missing in the SBOM, a package without a file in the image or a header in the agent, a version that differs from
dpkg's, a missing library, and a library that no program needs."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT, SBOM = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
AGENT = "/usr/bin/sluice"
LINKED = ("DYNAMIC_LINK", "DEPENDS_ON", "BUILD_DEPENDENCY_OF")
wrong = []


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_elf(path):
    return path.read_bytes()[:4] == b"\x7fELF"


def dynamic(path, tag):
    """The values of NEEDED or SONAME."""
    return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "--dynamic", str(path)))


def owner(path):
    """The package whose file of that name on this machine has the same contents."""
    for line in output("dpkg-query", "-S", "*/" + path.name).splitlines():
        packages, _, theirs = line.rpartition(": ")
        here = pathlib.Path(theirs)
        if here.is_file() and digest(here) == digest(path):
            return packages.split(",")[0].split(":")[0]
    return None


def related(kinds, name=None):
    """The names in relations of these kinds, on either side."""
    return {(each["spdxElementId"], each["relatedSpdxElement"]) for each in SBOM["relationships"]
            if each["relationshipType"] in kinds and (name is None or name in (each["spdxElementId"], each["relatedSpdxElement"]))}


def check_files(files):
    names = {each["SPDXID"]: each["fileName"].removeprefix(".") for each in SBOM["files"]}
    packages = {each["SPDXID"]: each["name"] for each in SBOM["packages"]}
    sources = {names[file]: packages[package] for file, package in related(("COPY_OF", "GENERATED_FROM"))}
    for name, path in files.items():
        found = "ca-certificates" if name.endswith("/ca-certificates.crt") else owner(path)
        if sources.get(name) != found:
            wrong.append(f"{name} is of {found}, and the SBOM says {sources.get(name)}")
    for name in sources.keys() - files.keys():
        wrong.append(f"the SBOM says of what package {name} is, which is not in the image")


def check_packages():
    named = {each["SPDXID"]: each for each in SBOM["packages"] if not each["filesAnalyzed"]}
    installed = dict(line.split("\t") for line in output("dpkg-query", "-W", "-f", "${Package}\t${Version}\n").splitlines())
    used = {side for pair in related(LINKED) for side in pair}
    for reference, package in named.items():
        if installed.get(package["name"]) != package["versionInfo"]:
            wrong.append(f"{package['name']} is {installed.get(package['name'])} here, and {package['versionInfo']} in the SBOM")
        if reference not in used:
            wrong.append(f"{package['name']} is in the SBOM, and for nothing")
    return len(named)


def check_linking(files):
    """Checks which libraries the programs need, directly or not; the loader is the interpreter of all."""
    libraries = {soname: name for name, path in files.items() if is_elf(path) for soname in dynamic(path, "SONAME")}
    reached, waiting = set(), [AGENT]
    while waiting:
        name = waiting.pop()
        path = ROOT / name.lstrip("/")
        for soname in dynamic(path, "NEEDED"):
            if soname not in libraries:
                wrong.append(f"{name} needs {soname}, which is not in the image")
            elif libraries[soname] not in reached:
                reached.add(libraries[soname])
                waiting.append(libraries[soname])
    interpreter = re.search(r"interpreter: (.*)\]", output("readelf", "--program-headers", str(ROOT / AGENT.lstrip("/")))).group(1)
    for name in sorted(set(libraries.values()) - reached):
        if pathlib.Path(name).name != pathlib.Path(interpreter).name:
            wrong.append(f"no program needs {name}")
    return len(reached)


def main():
    files = {"/" + str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*")) if path.is_file() and not path.is_symlink()}
    files.pop(AGENT, None) or sys.exit(f"sbom_contents.py: there is no {AGENT} in the image")
    check_files(files)
    linked, packages = check_linking(files), check_packages()
    for each in wrong:
        print(each, file=sys.stderr)
    print(f"SBOM: {packages} packages, {len(files) + 1} files, {linked} libraries that are needed")
    sys.exit(1 if wrong else 0)


main()
