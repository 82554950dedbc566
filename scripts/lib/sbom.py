# SPDX-License-Identifier: Apache-2.0
"""Prints the bill of materials of an image as SPDX 2.3 JSON: its files, the Debian packages and versions that they are from, and the packages
whose headers were compiled into the agent. Its time is SOURCE_DATE_EPOCH.

usage: sbom.py ROOT BUILD VERSION ARCH [SYSROOT]
ROOT is the image's root (scripts/lib/image), BUILD the agent's build directory; SYSROOT: the directory of scripts/lib/sysroot, for another
architecture."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

AGENT = "SPDXRef-Package-sluice"
LICENSE = "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)"
# Generated on the machine from a package's files, and therefore in no package's file list.
MADE_BY = {"/etc/ssl/certs/ca-certificates.crt": "ca-certificates"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def spellings(path):
    """The paths under which a package may list a file: /lib is a link to /usr/lib, and packages use either."""
    return [path, path.removeprefix("/usr") if path.startswith("/usr/lib") else "/usr" + path]


class Machine:
    """The packages installed on this machine."""

    def __init__(self):
        self.known = {}
        for line in output("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\t${source:Package}\n").splitlines():
            name, *rest = line.split("\t")
            self.known[name] = rest

    def packages_of(self, paths):
        """Maps each path to its package; paths without a package are left out."""
        owners = {}
        for line in output("dpkg-query", "-S", *sorted({name for path in paths for name in spellings(path)})).splitlines():
            names, _, path = line.rpartition(": ")
            if not line.startswith("diversion "):
                owners[path] = names.split(",")[0].split(":")[0]
        found = {path: next((owners[name] for name in spellings(path) if name in owners), MADE_BY.get(path)) for path in paths}
        return {path: name for path, name in found.items() if name}


class Unpacked:
    """The packages that scripts/lib/sysroot has unpacked."""

    def __init__(self, root):
        lines = (line.split("\t") for line in (root / "files").read_text().splitlines())
        self.owners = {path.split(" -> ")[0]: name for path, name in lines if not path.endswith("/")}
        self.known = {}
        for stanza in re.split(r"^(?=Package: )", (root / "packages").read_text(), flags=re.M)[1:]:
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
            source = fields.get("Source", fields["Package"]).split(" ")[0]
            self.known[fields["Package"]] = [fields["Version"], fields["Architecture"], source]

    def packages_of(self, paths):
        found = {path: next((self.owners[name] for name in spellings(path) if name in self.owners), None) for path in paths}
        return {path: name for path, name in found.items() if name}


def headers(build):
    """Real paths of the headers outside the tree from which the agent's objects were compiled."""
    paths, ours = set(), False
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if not line.startswith(" "):
            ours = line.startswith("CMakeFiles/") and line.endswith("(VALID)")
        elif ours and (line.strip().startswith("/usr/") or "sysroot-" in line):
            paths.add(os.path.normpath(build / line.strip()))
    return paths


def files_of(root):
    for path in sorted(each for each in root.rglob("*") if each.is_file() and not each.is_symlink()):
        data = path.read_bytes()
        yield "/" + str(path.relative_to(root)), hashlib.sha1(data).hexdigest(), hashlib.sha256(data).hexdigest()


def reference(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package_entry(name, version, arch, source):
    purl = f"pkg:deb/debian/{name.replace('+', '%2B')}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={arch}"
    return {"SPDXID": reference("Package", name), "name": name, "versionInfo": version, "supplier": "Organization: Debian",
            "sourceInfo": f"Debian source package {source}", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}


def document(root, build, version, arch, sysroot):
    machine = Machine()
    packages = Unpacked(sysroot) if sysroot else machine
    files = list(files_of(root))
    libraries = [name for name, _, _ in files if name != "/usr/bin/sluice"]
    in_image = machine.packages_of([name for name in libraries if name in MADE_BY])
    in_image |= packages.packages_of([name for name in libraries if name not in MADE_BY])
    if missing := set(libraries) - set(in_image):
        sys.exit(f"sbom.py: no package has {', '.join(sorted(missing))}")
    compiled = set()
    used = headers(build)
    if sysroot:
        below = {path for path in used if pathlib.Path(path).is_relative_to(sysroot)}
        compiled |= set(packages.packages_of([path.removeprefix(str(sysroot)) for path in below]).values())
        used -= below
    compiled |= set(machine.packages_of(sorted(used)).values())
    known = machine.known | packages.known
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    code = hashlib.sha1("".join(sorted(sha1 for _, sha1, _ in files)).encode()).hexdigest()
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", AGENT)]
    relations += [(AGENT, "CONTAINS", reference("File", name)) for name, _, _ in files]
    relations += [(reference("File", path), "GENERATED_FROM" if path in MADE_BY else "COPY_OF", reference("Package", name))
                  for path, name in sorted(in_image.items())]
    relations += [(AGENT, "DEPENDS_ON" if name == "ca-certificates" else "DYNAMIC_LINK", reference("Package", name))
                  for name in sorted(set(in_image.values()))]
    relations += [(reference("Package", name), "BUILD_DEPENDENCY_OF", AGENT) for name in sorted(compiled)]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"sluice-{version}-{arch}",
        "documentNamespace": f"urn:sluice:{version}:{arch}:{code}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)), "creators": ["Tool: sluice-scripts-package"]},
        "packages": [{"SPDXID": AGENT, "name": "sluice", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
                      "packageVerificationCode": {"packageVerificationCodeValue": code}, "licenseConcluded": LICENSE,
                      "licenseDeclared": LICENSE, "licenseInfoFromFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"}]
        + [package_entry(name, *known[name]) for name in sorted(set(in_image.values()) | compiled)],
        "files": [{"SPDXID": reference("File", name), "fileName": "." + name, "licenseConcluded": "NOASSERTION",
                   "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
                   "checksums": [{"algorithm": "SHA1", "checksumValue": sha1}, {"algorithm": "SHA256", "checksumValue": sha256}]}
                  for name, sha1, sha256 in files],
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations],
    }


if __name__ == "__main__":
    where, made, number, architecture, *rest = sys.argv[1:]
    unpacked = pathlib.Path(rest[0]).resolve() if rest and rest[0] else None
    print(json.dumps(document(pathlib.Path(where), pathlib.Path(made).resolve(), number, architecture, unpacked), indent=1))
