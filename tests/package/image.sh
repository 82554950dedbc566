#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The container image: made twice it is identical, containerd imports and runs it with the DaemonSet's privileges, its SBOM is complete, with
# versions (REL-59), its signature is valid, and tampering is detected.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/scenario.sh"
# shellcheck source=tests/package/lib/twice.sh
source "$SLUICE_ROOT/tests/package/lib/twice.sh"

LIMIT=$((60 * 1024 * 1024))
VERSION=$("$SLUICE" --version | cut -d' ' -f2)
NAME=docker.io/library/sluice:$VERSION

package() { "$SLUICE_ROOT/scripts/package" "$@" --output "$LAB_DIR/once"; }
ctr() { lab_in node env "${FINDS[@]}" ctr --address "$LAB_DIR/containerd.sock" "$@"; }

# blob FILTER: the blob whose digest FILTER selects from the image's manifest.
blob() {
	local manifest digest
	manifest=$(tar -xOf "$IMAGE" index.json | jq -r '.manifests[0].digest')
	digest=$(tar -xOf "$IMAGE" "blobs/${manifest/:/\/}" | jq -r "$1")
	tar -xOf "$IMAGE" "blobs/${digest/:/\/}"
}

config() { blob .config.digest | jq -cr "$1"; }

small_and_as_the_dockerfile_says() {
	(($(stat -c %s "$IMAGE") <= LIMIT)) || die "the image has $(stat -c %s "$IMAGE") bytes, more than $LIMIT"
	[[ $(config .config.Entrypoint) == "$(sed -n 's/^ENTRYPOINT //p' "$SLUICE_ROOT/k8s/deploy/Dockerfile" | jq -c .)" ]] ||
		die "another entry point than the Dockerfile's: $(config .config)"
	[[ $(config '.config.Labels["org.opencontainers.image.licenses"]') == "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)" ]] ||
		die "other labels than the Dockerfile's: $(config .config.Labels)"
	printf 'image: %d bytes\n' "$(stat -c %s "$IMAGE")"
}

# sbom: the SBOM lists each file of the image with its digest, and its package and version; and nothing else.
sbom() {
	local sbom=${IMAGE%.oci.tar}.spdx.json
	mkdir "$LAB_DIR/root"
	blob '.layers[0].digest' | tar -xz -C "$LAB_DIR/root"
	diff <(jq -r '.files[] | .fileName as $name | .checksums[] | select(.algorithm == "SHA256") | "\(.checksumValue)  \($name)"' "$sbom" | sort) \
		<(cd "$LAB_DIR/root" && find . -type f -print0 | xargs -0 sha256sum | sort) || die "the SBOM does not have the image's files"
	python3 "$SLUICE_ROOT/tests/package/lib/sbom_contents.py" "$LAB_DIR/root" "$sbom" || die "the SBOM is not of what is in the image, above"
	[[ $(jq -r '.packages[] | select(.filesAnalyzed | not) | .externalRefs[0].referenceLocator' "$sbom" | grep -vc '^pkg:deb/debian/[a-z0-9]') == 0 ]] ||
		die "packages without a purl"
	jq -e '[.relationships[] | select(.relationshipType == "BUILD_DEPENDENCY_OF").spdxElementId] | index("SPDXRef-Package-libcli11-dev")' \
		"$sbom" >/dev/null || die "the SBOM does not name what is in headers alone"
}

containerd_up() {
	cat >"$LAB_DIR/containerd.toml" <<-TOML
		version = 2
		root = "$LAB_DIR/containerd-root"
		state = "$LAB_DIR/containerd-state"
		disabled_plugins = ["io.containerd.grpc.v1.cri"]
		[grpc]
		  address = "$LAB_DIR/containerd.sock"
	TOML
	# Its own /run/containerd, where runc keeps containers by name, those of every containerd on the machine.
	if [[ ! -e /run/containerd ]]; then mkdir /run/containerd && MADE_RUN=yes; fi
	mount -t tmpfs none /run/containerd
	lab_start node containerd.log env "${FINDS[@]}" containerd --config "$LAB_DIR/containerd.toml"
	lab_wait 30 ctr version >/dev/null || die "containerd does not start: $(tail -n 5 "$LAB_DIR/containerd.log")"
}

# containerd_down: ends the containers, which would outlive containerd by their shims, and removes its directory.
containerd_down() {
	local id try
	for id in $(ctr tasks list -q 2>/dev/null); do ctr tasks kill --signal SIGKILL "$id" 2>/dev/null || true; done
	for try in 1 2 3 4 5 6 7 8 9 10; do ended || sleep "0.$try"; done
	! mountpoint -q /run/containerd || umount -l /run/containerd
	[[ -z $MADE_RUN ]] || rmdir /run/containerd 2>/dev/null || true
}

# run ID WORD...: runs a container of the image as the DaemonSet does, with a read-only root.
run() {
	ctr run --rm --read-only --snapshotter native --net-host --cap-add CAP_BPF --cap-add CAP_DAC_READ_SEARCH --cap-add CAP_NET_ADMIN --cap-add CAP_PERFMON --cap-add CAP_SYS_ADMIN --cap-add CAP_SYS_PTRACE \
		--mount "type=bind,src=$LAB_PINS,dst=/sys/fs/bpf,options=rbind:rw" \
		--mount "type=bind,src=$(cgroup_root),dst=/host/cgroup,options=rbind:ro" \
		--mount "type=bind,src=$LAB_MANIFESTS,dst=/etc/sluice,options=rbind:ro" "$NAME" "$@"
}

runs() {
	mkdir -p "$LAB_PINS"
	ctr images import --snapshotter native "$IMAGE" >"$LAB_DIR/import.log" 2>&1 || die "containerd refuses the image: $(cat "$LAB_DIR/import.log")"
	[[ $(ctr images list -q) == "$NAME" ]] || die "containerd calls it '$(ctr images list -q)'"
	[[ $(run version /usr/bin/sluice --version) == "sluice $VERSION" ]] || die "the image does not run"
	prints '^Usage: sluice' run entry || die "entry point and arguments do not print the help"
	prints hostname-override run proxy /usr/local/bin/kube-proxy --help || die "called as kube-proxy it does not take its flags"
	printf 'containerd: %s runs\n' "$NAME"
}

# serves: checks the agent in its container.
serves() {
	lab_backends
	run agent /usr/bin/sluice agent --manifests /etc/sluice --node node --devices eth0 --cgroup "/host/cgroup/$LAB" --pod-devices none >"$LAB_DIR/agent.log" 2>&1 &
	lab_wait 60 lab_in node curl -fsS -o /dev/null -m 2 http://127.0.0.1:10256/healthz || die "not ready: $(tail -n 5 "$LAB_DIR/agent.log")"
	lab_wait 10 lab_ask client tcp 10.0.0.10 30080 || die "a node port does not answer"
	ctr tasks kill --signal SIGTERM agent
	lab_wait 15 ended agent || die "the container does not end"
	wait "$!" || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
	printf 'containerd: the agent serves\n'
}

ended() {
	local tasks
	tasks=$(ctr tasks list -q 2>/dev/null) && [[ -z $tasks ]]
}

# refused WHAT WORDS: verify fails with WORDS; the artifacts are restored afterwards.
refused() {
	local said
	! said=$(package verify "$LAB_DIR/public.pem" 2>&1) || die "verify finds nothing wrong with $1"
	[[ $said == *"$2"* ]] || die "$1: verify says '$said'"
	printf 'refused: %s: %s\n' "$1" "${said#*: }"
	rm -rf "$LAB_DIR/once"
	cp -a "$LAB_DIR/kept" "$LAB_DIR/once"
}

signatures() {
	local once=$LAB_DIR/once middle
	openssl genpkey -algorithm ed25519 -out "$LAB_DIR/private.pem" 2>/dev/null
	openssl genpkey -algorithm ed25519 -out "$LAB_DIR/other.pem" 2>/dev/null
	openssl pkey -in "$LAB_DIR/private.pem" -pubout -out "$LAB_DIR/public.pem"
	package chart >/dev/null
	package sign "$LAB_DIR/private.pem"
	package verify "$LAB_DIR/public.pem"
	cp -a "$once" "$LAB_DIR/kept"
	# Invert one byte in the middle of the image.
	middle=$(($(stat -c %s "$IMAGE") / 2))
	printf '%b' "\\x$(printf '%02x' $((255 ^ $(od -An -tu1 -j "$middle" -N 1 "$IMAGE"))))" | dd of="$IMAGE" bs=1 seek="$middle" conv=notrunc status=none
	refused "a changed image" "not as signed: sluice-$VERSION"
	# Sign again with another key.
	package sign "$LAB_DIR/other.pem" >/dev/null
	refused "another key" "SHA256SUMS is not signed with this key"
	touch "$once/more.tgz"
	refused "an extra file" "other files than those signed"
	touch "$once/.hidden"
	refused "an extra hidden file" "other files than those signed"
	touch "$once/SHA256SUMS.more"
	refused "a file named like the sums" "other files than those signed"
	ln -s /etc/passwd "$once/linked"
	refused "a link" "linked is no plain file"
	rm "$once/sluice-$VERSION.tgz"
	refused "a missing file" "not as signed"
	# The checksums are signed with the right key, the payload with another one.
	openssl pkeyutl -sign -inkey "$LAB_DIR/other.pem" -rawin -in "$once"/*.payload.json | base64 -w 0 >"$(echo "$once"/*.payload.sig)"
	(cd "$once" && sha256sum -- * 2>/dev/null | grep -v SHA256SUMS >"$LAB_DIR/sums" && mv "$LAB_DIR/sums" SHA256SUMS &&
		openssl pkeyutl -sign -inkey "$LAB_DIR/private.pem" -rawin -in SHA256SUMS >"$LAB_DIR/sig" && mv "$LAB_DIR/sig" SHA256SUMS.sig)
	refused "a payload of another key" "payload.json is not signed with this key"
	! package sign "$LAB_DIR/public.pem" >/dev/null 2>&1 || die "signs with a public key"
}

CONTAINERD=${CONTAINERD:-$("$SLUICE_ROOT/scripts/lib/containerd")}
# Programs and libraries in $CONTAINERD take precedence.
FINDS=("PATH=$CONTAINERD/usr/bin:$CONTAINERD/usr/sbin:$PATH" "LD_LIBRARY_PATH=$CONTAINERD/usr/lib/$(gcc -print-multiarch)")
MADE_RUN=''
lab_up image
trap 'containerd_down; lab_down' EXIT
twice image
IMAGE=$LAB_DIR/once/sluice-$VERSION-$(dpkg --print-architecture).oci.tar
python3 "$SLUICE_ROOT/scripts/lib/oci.py" check "$IMAGE" >/dev/null
small_and_as_the_dockerfile_says
sbom
containerd_up
runs
serves
signatures
