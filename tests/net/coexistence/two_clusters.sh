#!/bin/bash
# Two clusters on one network, with the same addresses of services and the same node ports (docs/threats.md): each node serves its own, a
# service may lead to one of the other cluster, and two services that lead to each other end by hop limits and take nothing else with them.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

NODE=10.0.0.10 OTHER=10.0.0.23

# service NAME CLUSTER-IP PORT NODE-PORT BACKEND BACKEND-PORT: one with one endpoint.
service() {
	cat <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default}
		spec: {type: NodePort, clusterIP: $2, ports: [{protocol: TCP, port: $3, nodePort: $4}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1-1, namespace: default, labels: {kubernetes.io/service-name: $1}}
		addressType: IPv4
		endpoints: [{addresses: [$5]}]
		ports: [{protocol: TCP, port: $6}]
	YAML
}

# other_agent: that of the other cluster's node, which is worker-c. It knows nothing of ours.
other_agent() {
	mkdir "$LAB_CGROUP/other" "$LAB_DIR/other"
	service web 10.96.0.80 80 30080 10.244.3.10 8080 >"$LAB_DIR/other/web.yaml"
	service ring 10.96.0.90 80 30090 "$NODE" 30090 >"$LAB_DIR/other/ring.yaml"
	nsenter --net="/run/netns/$LAB-worker-c" bash -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
	ip -n "$LAB-worker-c" route add 10.244.3.0/24 via 10.0.0.22
	lab_start worker-c other.log "$SLUICE" agent --manifests "$LAB_DIR/other" --node other --devices eth0 --cgroup "$LAB_CGROUP/other" \
		--pins "$LAB_PINS/other" --health 127.0.0.1:10256 --metrics 127.0.0.1:10249 ${SLUICE_WITHOUT:+--without "$SLUICE_WITHOUT"}
	lab_wait 30 lab_in worker-c curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "the other agent: $(cat "$LAB_DIR/other.log")"
}

# answers WHO ADDRESS PORT NAME [COUNT]: nobody but NAME.
answers() {
	local said
	said=$(lab_ask "$1" tcp "$2" "$3" --count "${5:-20}" --json) || die "$1 at $2:$3: $said"
	[[ $(jq -c '.answers | keys' <<<"$said") == "[\"$4\"]" ]] || die "$1 at $2:$3, which $4 alone should answer: $said"
}

# packets DEVICE: that it received.
packets() { ip -n "$LAB-node" -s -j link show dev "$1" | jq '.[0].stats64.rx.packets'; }

lab_up clusters
rm -f "$LAB_MANIFESTS"/*
service web 10.96.0.80 80 30080 10.244.2.10 8080 >"$LAB_MANIFESTS/web.yaml"
service far 10.96.0.81 80 30081 "$OTHER" 30080 >"$LAB_MANIFESTS/far.yaml"
service ring 10.96.0.90 80 30090 "$OTHER" 30090 >"$LAB_MANIFESTS/ring.yaml"
lab_backends
lab_agent
other_agent

answers client "$NODE" 30080 web-a
answers client "$OTHER" 30080 web-b
answers pod 10.96.0.80 80 web-a
printf 'the same addresses and ports: each cluster its own\n'

answers client "$NODE" 30081 web-b
answers pod 10.96.0.81 80 web-b
printf 'a service that leads to a node port of the other cluster: web-b\n'

before=$(packets eth0)
! lab_ask client tcp "$NODE" 30090 --count 1 --timeout 3 >/dev/null || die "a ring has answered"
! lab_ask pod tcp 10.96.0.90 80 --count 1 --timeout 3 >/dev/null || die "a ring has answered a pod"
turned=$(($(packets eth0) - before))
((turned > 20 && turned < 2000)) || die "a ring of two services: $turned packets"
answers client "$NODE" 30080 web-a
answers client "$OTHER" 30080 web-b
printf 'a ring of two services: %d packets of two clients, and all else is served\n' "$turned"
