# SPDX-License-Identifier: Apache-2.0
"""Makes and verifies a release's provenance: an in-toto Statement v1 with SLSA's provenance v1 as predicate, signed as a DSSE envelope by
an ed25519 key (PEM), one line of JSON.

usage: provenance.py make PRIVATE_KEY DIRECTORY VERSION REPOSITORY COMMIT ARCHITECTURE...    prints the envelope; its subjects are all
                     files of DIRECTORY and the images' manifests. SOURCE_DATE_EPOCH is the commit's time. No other time is
                     in it, so that equal files have equal provenance
       provenance.py verify PUBLIC_KEY DIRECTORY FILE    fails unless the key signed FILE, and its subjects are the other files of
                     DIRECTORY as they are; prints the commit"""

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import oci

PAYLOAD_TYPE = "application/vnd.in-toto+json"
# Files that are made of the subjects, after the provenance.
ABOUT = ("SHA256SUMS", "SHA256SUMS.sig")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def output(*command, data=None):
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def pre_authentication(payload):
    """What DSSE signs: type and payload, each behind its length."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def key_id(key, kind):
    """The SHA-256 of the public key (DER), as MAINTAINERS.md names it. KIND is -pubin for a public key in PEM."""
    public = output("openssl", "pkey", "-in", str(key), *kind, "-pubout", "-outform", "DER")
    return hashlib.sha256(public).hexdigest()


def sign(key, data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return output("openssl", "pkeyutl", "-sign", "-inkey", str(key), "-rawin", "-in", file.name)


def is_signed(key, data, signature):
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile() as given:
        file.write(data)
        given.write(signature)
        file.flush()
        given.flush()
        done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(key), "-rawin", "-in", file.name, "-sigfile", given.name],
                              capture_output=True, check=False)
    return done.returncode == 0


def subjects(directory):
    """Every file with its digest, and every image's manifest, by which registries name it."""
    found = []
    for path in sorted(directory.iterdir()):
        if path.name.endswith((".payload.json", ".payload.sig", ".intoto.jsonl")) or path.name in ABOUT:
            continue
        found.append({"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}})
        if path.name.endswith(".oci.tar"):
            found.append({"name": path.name.removesuffix(".oci.tar") + ".manifest", "digest": {"sha256": oci.check(path).removeprefix("sha256:")}})
    return found


def tools():
    """The Debian packages of scripts/lib/packages.sh from which this machine builds."""
    script = 'source "$1/scripts/lib/common.sh"; source "$1/scripts/lib/apt.sh"; source "$1/scripts/lib/packages.sh"; printf "%s\\n" "${BUILD_PACKAGES[@]}" "$(boost_package "$(release)")"'
    wanted = output("bash", "-c", script, "tools", str(ROOT)).decode().split()
    lines = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n", *wanted], capture_output=True, text=True, check=False).stdout
    for name, version, arch in sorted(line.split("\t") for line in set(lines.splitlines())):
        quoted = [each.replace("+", "%2B").replace(":", "%3A") for each in (name, version)]
        yield {"uri": f"pkg:deb/debian/{quoted[0]}@{quoted[1]}?arch={arch}"}


def statement(directory, version, repository, commit, architectures):
    page = f"{repository}/blob/v{version}/docs/releases.md"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects(directory),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{page}#provenance",
                "externalParameters": {"source": f"git+{repository}@refs/tags/v{version}", "version": version, "architectures": architectures},
                "internalParameters": {"SOURCE_DATE_EPOCH": int(os.environ["SOURCE_DATE_EPOCH"])},
                "resolvedDependencies": [{"uri": f"git+{repository}@refs/tags/v{version}", "digest": {"gitCommit": commit}}, *tools()],
            },
            "runDetails": {"builder": {"id": f"{page}#builder"}},
        },
    }


def make(key, directory, version, repository, commit, *architectures):
    payload = json.dumps(statement(pathlib.Path(directory), version, repository, commit, list(architectures)), sort_keys=True, separators=(",", ":")).encode()
    signature = {"keyid": key_id(key, ()), "sig": base64.b64encode(sign(key, pre_authentication(payload))).decode()}
    print(json.dumps({"payloadType": PAYLOAD_TYPE, "payload": base64.b64encode(payload).decode(), "signatures": [signature]}, sort_keys=True))


def verify(key, directory, file):
    envelope = json.loads(pathlib.Path(file).read_text())
    payload = base64.b64decode(envelope["payload"])
    if envelope["payloadType"] != PAYLOAD_TYPE:
        sys.exit(f"provenance.py: {file} is no in-toto statement")
    if not any(is_signed(key, pre_authentication(payload), base64.b64decode(each["sig"])) for each in envelope["signatures"]):
        sys.exit(f"provenance.py: {file} is not signed with this key")
    said = json.loads(payload)
    if said["_type"] != "https://in-toto.io/Statement/v1" or said["predicateType"] != "https://slsa.dev/provenance/v1":
        sys.exit(f"provenance.py: {file} is no SLSA provenance v1")
    named, there = ({each["name"]: each["digest"] for each in some} for some in (said["subject"], subjects(pathlib.Path(directory))))
    if different := sorted(name for name in named.keys() | there.keys() if named.get(name) != there.get(name)):
        sys.exit(f"provenance.py: {file} is of other files than these: {', '.join(different)}")
    print(said["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"])


if __name__ == "__main__":
    {"make": make, "verify": verify}[sys.argv[1]](*sys.argv[2:])
