#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two balancers before the same backends, with consistent selection and one secret (docs/guides/stand-alone.md): both choose
# the same backend for a connection, by IPv4 and IPv6. One is killed: where the client's address is kept its connections go
# on through the other, with source NAT they are reset at once and none hangs.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

CLIENT=$SLUICE_ROOT/tests/net/lib/by_port.py
NAT=203.0.113.80 NAT6=2001:db8:113::80 KEPT=203.0.113.81 KEPT6=2001:db8:113::81
BALANCERS=(node worker-c)

# service NAME CLUSTER_IPS [LB_ADDRESSES]: a service. Without known pod ranges a ClusterIP keeps the client's address.
service() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default, annotations: {sluice.lb/selection: consistent}}
		spec:
		  type: LoadBalancer
		  allocateLoadBalancerNodePorts: false
		  clusterIP: ${2%% *}
		  clusterIPs: ["${2%% *}", "${2##* }"]
		  ipFamilies: [IPv4, IPv6]
		  ipFamilyPolicy: RequireDualStack
		  ports: [{name: http, port: 80, targetPort: 8080}]
		status: {loadBalancer: {ingress: [${3:+{ip: ${3%% *}\}, {ip: "${3##* }"\}}]}}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1-4, namespace: default, labels: {kubernetes.io/service-name: $1}}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: [10.244.2.10]}, {addresses: [10.244.3.10]}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1-6, namespace: default, labels: {kubernetes.io/service-name: $1}}
		addressType: IPv6
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: ["fd00:10:244:2::10"]}, {addresses: ["fd00:10:244:3::10"]}]
	YAML
}

# second: sets up the second balancer like the first: it forwards and has routes to the backends.
second() {
	local pods
	nsenter --net="/run/netns/$LAB-worker-c" bash -c 'cd /proc/sys/net; echo 1 >ipv4/ip_forward; echo 1 >ipv6/conf/all/forwarding'
	for pods in 2 3; do
		ip -n "$LAB-worker-c" route add "10.244.$pods.0/24" via "10.0.0.$((pods + 19))"
		ip -n "$LAB-worker-c" route add "fd00:10:244:$pods::/64" via "fd00:10::$((pods + 19))"
	done
}

# balancer WHO: starts an agent on WHO.
balancer() {
	lab_start "$1" "agent-$1.log" "$SLUICE" agent --manifests "$LAB_MANIFESTS" --node "$1" --devices eth0 --sockets off \
		--pins "$LAB_PINS-$1" --cluster-secret "$LAB_DIR/secret" --health 127.0.0.1:10256 --metrics off --consistent-slots 251
	PID[$1]=$LAB_STARTED
}

# way BALANCER...: sets the external routes to the services, by ECMP.
way() {
	local who number family
	local -A hops=()
	for who; do
		number=$(lab_number "$who")
		hops[4]+=" nexthop via 10.0.0.$number" hops[6]+=" nexthop via fd00:10::$number"
	done
	# shellcheck disable=SC2086  # words of a route
	ip -n "$LAB-client" route replace 203.0.113.0/24 ${hops[4]}
	# shellcheck disable=SC2086
	ip -n "$LAB-client" -6 route replace 2001:db8:113::/64 ${hops[6]}
}

# way_back BALANCER: sets the backends' routes to the client, for services that keep its address.
way_back() {
	local who number
	number=$(lab_number "$1")
	for who in worker-a worker-b; do
		ip -n "$LAB-$who" route replace 10.0.0.100/32 via "10.0.0.$number"
		ip -n "$LAB-$who" -6 route replace fd00:10::100/128 via "fd00:10::$number"
	done
}

by_port() { lab_in client python3 "$CLIENT" once "$1" 80 42000 40; }

# same_choice ADDRESS: checks that both balancers choose the same backend for each of 40 client ports.
same_choice() {
	local who
	for who in "${BALANCERS[@]}"; do
		way "$who"
		way_back "$who"
		by_port "$1" >"$LAB_DIR/by-$who" || die "$1 through $who: $(tail -n 3 "$LAB_DIR/by-$who")"
	done
	diff "$LAB_DIR/by-node" "$LAB_DIR/by-worker-c" || die "$1: the balancers choose otherwise"
	(($(cut -d' ' -f2 "$LAB_DIR/by-node" | sort -u | wc -l) == 2)) || die "$1: one backend alone was chosen"
}

# keep NAME ADDRESS PORT: ten connections that exchange data until the stop file exists; each log line is one that ended,
# and how.
keep() {
	lab_start client "keep-$1" python3 "$CLIENT" keep "$2" 80 "$3" 10 "$LAB_DIR/stop"
	KEEPERS+=("$LAB_STARTED")
	lab_wait 10 grep -q '^open' "$LAB_DIR/keep-$1" || die "$1: not all connections come about: $(cat "$LAB_DIR/keep-$1")"
}

ended() { awk -v how="$2" '$1 == how' "$LAB_DIR/keep-$1" | wc -l; }

declare -A PID
KEEPERS=()
lab_up balancers
lab_backends
second
head -c 32 /dev/urandom >"$LAB_DIR/secret"
rm "$LAB_MANIFESTS"/*
{ service nat "10.96.0.80 fd00:10:96::80" "$NAT $NAT6" && service kept "$KEPT $KEPT6"; } >"$LAB_MANIFESTS/services.yaml"
for who in "${BALANCERS[@]}"; do balancer "$who"; done
for who in "${BALANCERS[@]}"; do
	lab_wait 30 lab_in "$who" curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "$who: $(tail -n 5 "$LAB_DIR/agent-$who.log")"
done
for address in "$NAT" "$NAT6" "$KEPT" "$KEPT6"; do same_choice "$address"; done
printf 'both balancers choose the same of two backends, for 160 connections\n'

way node
way_back node
keep nat "$NAT" 43000
keep kept "$KEPT" 43100
keep kept6 "$KEPT6" 43200
# The first balancer disappears with its hooks, as a machine that fails; the routes change.
lab_stop "${PID[node]}" KILL || true
ip -n "$LAB-node" link set eth0 down
way worker-c
way_back worker-c
lab_wait 10 eval '(($(ended nat reset) == 10))' || die "with source NAT not each of ten was reset at once: $(cat "$LAB_DIR/keep-nat")"
sleep 2
touch "$LAB_DIR/stop"
for pid in "${KEEPERS[@]}"; do wait "$pid" || true; done
for each in kept kept6; do
	(($(ended "$each" good) == 10)) || die "$each: not each of ten went on: $(cat "$LAB_DIR/keep-$each")"
done
printf 'one killed: 20 connections whose clients backends see went on to the same backend, 10 with source NAT were reset\n'
rm -rf "$LAB_PINS"-*
