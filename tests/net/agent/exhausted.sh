#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-42: without a free file descriptor, and on a full disk, the agent keeps running, what it wrote keeps serving, and
# changes made meanwhile are planned as soon as there is room again. An agent that cannot start for lack of them empties no
# map.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

DISK=''
trap '[[ -z $DISK ]] || umount -l "$DISK"; lab_down' EXIT

# service NAME ADDRESS: a Service and its only endpoint, web-a, as JSON, because half a JSON file is invalid.
service() {
	jq -nc --arg name "$1" --arg address "$2" '{apiVersion: "v1", kind: "List", items: [
		{apiVersion: "v1", kind: "Service", metadata: {namespace: "default", name: $name},
			spec: {clusterIP: $address, ports: [{name: "http", port: 80}]}},
		{apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4",
			metadata: {namespace: "default", name: $name, labels: {"kubernetes.io/service-name": $name},
				annotations: {padding: ("x" * 20000)}},
			ports: [{name: "http", port: 8080}], endpoints: [{addresses: ["10.244.2.10"]}]}]}'
}
served() { lab_ask pod tcp "$1" 80; }
healthy() { lab_in node curl -fsS -m 2 -o /dev/null http://127.0.0.1:10256/healthz; }
# ticks: the CPU time that the agent has used, in hundredths of a second.
ticks() { awk '{ print $14 + $15 }' "/proc/$LAB_AGENT/stat"; }
unchanged() { diff <(lab_maps) "$LAB_DIR/maps" || die "$1: the maps changed"; }

descriptors() {
	local before limit
	limit=$(prlimit --pid "$LAB_AGENT" --nofile --output SOFT --noheadings | tr -d ' ')
	prlimit --pid "$LAB_AGENT" --nofile=3:
	before=$(ticks)
	service late 10.96.0.70 >"$LAB_MANIFESTS/late.json"
	! healthy || die "there was a descriptor left for a probe"
	unchanged "no descriptors"
	(($(ticks) - before < 100)) || die "an agent without descriptors used $(($(ticks) - before)) hundredths of a second"
	prlimit --pid "$LAB_AGENT" --nofile="$limit:"
	lab_wait 10 served 10.96.0.70 || die "the service that came while there was no descriptor is not served"
	lab_wait 10 healthy || die "not healthy with descriptors again"
	printf 'no descriptor to spare: serves on, and plans what came when there is one\n'
	rm "$LAB_MANIFESTS/late.json"
	lab_wait 10 eval '! served 10.96.0.70'
}

no_descriptors_to_start() {
	local code=0
	lab_stop "$LAB_AGENT" KILL || true
	(ulimit -n 20 && lab_launch --xdp native && wait "$LAB_AGENT") || code=$?
	((code == 1)) || die "an agent with 20 descriptors ended with $code"
	grep -q "^sluice: .*[Tt]oo many open files" "$DISK/agent.log" || die "it does not say why: $(tail -n 3 "$DISK/agent.log")"
	unchanged "an agent with 20 descriptors"
	lab_agent --xdp native
	unchanged "the next agent"
	printf 'too few descriptors to start: %s\n' "$(grep '^sluice: ' "$DISK/agent.log")"
}

disk() {
	dd if=/dev/zero of="$DISK/fill" bs=4k status=none 2>/dev/null || true
	service late 10.96.0.70 >"$LAB_MANIFESTS/late.json" 2>/dev/null && die "the disk is not full"
	lab_stop "$LAB_AGENT" KILL || true
	lab_agent --xdp native # it cannot even log
	healthy || die "not healthy on a full disk"
	unchanged "a full disk"
	rm "$DISK/fill"
	service late 10.96.0.70 >"$LAB_MANIFESTS/late.json"
	lab_wait 10 served 10.96.0.70 || die "the service is not served when there is room"
	printf 'a full disk: starts, serves on, and plans what is whole when there is room\n'
}

lab_up exhausted
lab_offload off
mkdir "$LAB_DIR/disk"
mount -t tmpfs -o size=256k none "$LAB_DIR/disk"
DISK=$LAB_DIR/disk
ln -s "$DISK/agent.log" "$LAB_DIR/agent.log"
mkdir "$DISK/manifests"
cp "$LAB_MANIFESTS"/*.yaml "$DISK/manifests"
LAB_MANIFESTS=$DISK/manifests
lab_backends
lab_agent --xdp native
lab_maps >"$LAB_DIR/maps"
lab_traffic pod 10.96.0.80 80
lab_traffic client 10.0.0.10 30080
descriptors
no_descriptors_to_start
disk
lab_traffic_ends
