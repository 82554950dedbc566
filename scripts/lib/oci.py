# SPDX-License-Identifier: Apache-2.0
"""Makes and checks OCI image layouts (image-spec 1.1) without a container engine: one layer, compressed reproducibly.

usage: oci.py make LAYER_TAR DOCKERFILE ARCH NAME:TAG LAYOUT
                        LAYER_TAR is the root file system; entry point, arguments and labels are those of DOCKERFILE's last stage. The
                        image's time is SOURCE_DATE_EPOCH, and OCI_GZIP another level of gzip than 9
       oci.py check ARCHIVE        every blob has the digest and size that its descriptor says, and no other blob is there; prints the
                                   digest of the manifest
       oci.py payload ARCHIVE      what cosign signs of an image ("simple signing"): JSON with the digest of the manifest"""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shlex
import sys
import tarfile
import time

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def text_of(value):
    """JSON text that is byte for byte the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def put(layout, kind, data):
    """Stores a blob and returns its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def container_of(dockerfile):
    """Entrypoint, Cmd and Labels of the last stage. Fails on instructions that would change them in another way."""
    stage = re.split(r"^FROM .*$", dockerfile, flags=re.M)[-1]
    config = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    for line in filter(None, map(str.strip, stage.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "ENTRYPOINT":
            config["Entrypoint"] = json.loads(rest)
        elif name == "CMD":
            config["Cmd"] = json.loads(rest)
        elif name == "LABEL":
            config["Labels"] = dict(word.split("=", 1) for word in shlex.split(rest))
        elif not line.startswith(("#", "COPY --from=build /image/ /")):
            sys.exit(f"oci.py: does not know '{line}' in the Dockerfile's last stage")
    return config


def make(layer_tar, dockerfile, arch, name, layout):
    (layout / "blobs/sha256").mkdir(parents=True)
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    root = layer_tar.read_bytes()
    layer = put(layout, LAYER, gzip.compress(root, int(os.environ.get("OCI_GZIP", "9")), mtime=0))
    config = put(layout, CONFIG, text_of({
        "created": created, "architecture": arch, "os": "linux", "config": container_of(dockerfile.read_text()),
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(root).hexdigest()]},
        "history": [{"created": created, "created_by": "scripts/package image"}]}))
    manifest = put(layout, MANIFEST, text_of({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}))
    tag = name.rpartition(":")[2]
    # containerd uses the first annotation as the image's name, all others the second.
    manifest["annotations"] = {"io.containerd.image.name": f"docker.io/library/{name}", "org.opencontainers.image.ref.name": tag}
    manifest["platform"] = {"architecture": arch, "os": "linux"}
    (layout / "index.json").write_bytes(text_of({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]}))
    (layout / "oci-layout").write_bytes(text_of({"imageLayoutVersion": "1.0.0"}))


def check(archive):
    """The manifest's digest; exits with a message if the archive is inconsistent."""
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    left = {name for name in files if name.startswith("blobs/")}

    def blob(descriptor):
        name = "blobs/" + descriptor["digest"].replace(":", "/")
        data = files.get(name)
        if data is None:
            sys.exit(f"oci.py: {archive} has no blob {descriptor['digest']}")
        if "sha256:" + hashlib.sha256(data).hexdigest() != descriptor["digest"] or len(data) != descriptor["size"]:
            sys.exit(f"oci.py: {archive}: the blob {descriptor['digest']} has other bytes")
        left.discard(name)
        return data

    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    roots = ["sha256:" + hashlib.sha256(gzip.decompress(blob(layer))).hexdigest() for layer in manifest["layers"]]
    if roots != config["rootfs"]["diff_ids"]:
        sys.exit(f"oci.py: {archive}: the layers are not those that the configuration names")
    if left:
        sys.exit(f"oci.py: {archive}: nothing leads to {', '.join(sorted(left))}")
    return described["digest"]


def payload(archive):
    with tarfile.open(archive) as tar:
        (described,) = json.load(tar.extractfile("index.json"))["manifests"]
    name = described["annotations"]["io.containerd.image.name"].rpartition(":")[0]
    return text_of({"critical": {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": described["digest"]},
                                 "type": "cosign container image signature"}, "optional": None})


def main(action, *words):
    if action == "make":
        layer, dockerfile, arch, name, layout = words
        make(pathlib.Path(layer), pathlib.Path(dockerfile), arch, name, pathlib.Path(layout))
    elif action == "check":
        print(check(*words))
    elif action == "payload":
        sys.stdout.buffer.write(payload(*words))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
