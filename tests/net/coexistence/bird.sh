#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two stand-alone balancers, both active, whose addresses the real BIRD announces to a router with ECMP, by the configuration of
# docs/guides/stand-alone.md as it is. A balancer that does not serve gets nothing, by the guide's own command. One is killed: connections
# through the other go on, those through the killed one are reset and come back to the same backend, none moves to another.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

CLIENT=$SLUICE_ROOT/tests/net/lib/by_port.py
GUIDE=$SLUICE_ROOT/docs/guides/stand-alone.md
ADDRESS=203.0.113.80
BALANCERS=(node worker-c)
FIRST=44000 COUNT=40

service() {
	cat <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: shop, namespace: default, annotations: {sluice.lb/selection: consistent}}
		spec:
		  type: LoadBalancer
		  allocateLoadBalancerNodePorts: false
		  clusterIP: 10.96.0.90
		  ports: [{name: http, port: 80, targetPort: 8080}]
		status: {loadBalancer: {ingress: [{ip: $ADDRESS}]}}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: shop-1, namespace: default, labels: {kubernetes.io/service-name: shop}}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: [10.244.2.10]}, {addresses: [10.244.3.10]}]
	YAML
}

# second: the other balancer forwards and knows the way to the backends, too.
second() {
	local pods
	nsenter --net="/run/netns/$LAB-worker-c" bash -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
	for pods in 2 3; do ip -n "$LAB-worker-c" route add "10.244.$pods.0/24" via "10.0.0.$((pods + 19))"; done
}

# balancer WHO: the agent there.
balancer() {
	lab_start "$1" "agent-$1.log" "$SLUICE" agent --manifests "$LAB_MANIFESTS" --node "$1" --devices eth0 --sockets off \
		--pins "$LAB_PINS-$1" --cluster-secret "$LAB_DIR/secret" --health 127.0.0.1:10256 --metrics off --consistent-slots 251
	AGENT[$1]=$LAB_STARTED
}

# ---- BIRD. ----

# bird WHO: with $LAB_DIR/WHO.bird as its configuration.
bird() {
	lab_start "$1" "bird-$1.log" env LD_LIBRARY_PATH="$LIBRARIES" "$BIRD/usr/sbin/bird" -f -c "$LAB_DIR/$1.bird" -s "$LAB_DIR/$1.ctl" -P "$LAB_DIR/$1.pid"
	DAEMON[$1]=$LAB_STARTED
}

birdc() { lab_in "$1" env LD_LIBRARY_PATH="$LIBRARIES" "$BIRD/usr/sbin/birdc" -s "$LAB_DIR/$1.ctl" "${@:2}"; }

# guide_config: the guide's block; but for how soon BIRD tries again.
guide_config() { awk '/^```bird/ { on = 1; next } /^```/ { on = 0 } on' "$GUIDE" | sed 's/^protocol bgp upstream {/&\n\tconnect delay time 1; error wait time 1, 2;/'; }

# guide_watch WHO: the guide's command that announces a balancer only while it serves.
guide_watch() {
	local command
	command=$(grep '^curl -fs http://127.0.0.1:10256/healthz' "$GUIDE")
	lab_in "$1" env LD_LIBRARY_PATH="$LIBRARIES" PATH="$LAB_DIR/bin-$1:$PATH" bash -c "$command"
}

balancer_bird() {
	{
		printf 'router id 10.0.0.%s;\nprotocol device {}\n' "$(lab_number "$1")"
		guide_config
	} >"$LAB_DIR/$1.bird"
	mkdir -p "$LAB_DIR/bin-$1"
	printf '#!/bin/sh\nexec %s -s %s "$@"\n' "$BIRD/usr/sbin/birdc" "$LAB_DIR/$1.ctl" >"$LAB_DIR/bin-$1/birdc"
	chmod +x "$LAB_DIR/bin-$1/birdc"
	bird "$1"
}

# The router is where the client is; it has the address that the guide gives it.
router_bird() {
	local who
	ip -n "$LAB-client" address add 10.0.0.1/24 dev eth0
	ip -n "$LAB-node" neighbour delete 10.0.0.1 dev eth0 # the lab's entry, which belongs to no host
	nsenter --net="/run/netns/$LAB-client" bash -c 'echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy'
	{
		printf 'router id 10.0.0.1;\nprotocol device {}\nprotocol kernel { merge paths yes; ipv4 { export all; }; }\n'
		for who in "${BALANCERS[@]}"; do
			printf 'protocol bgp %s { local 10.0.0.1 as 65000; neighbor 10.0.0.%s as 65001; hold time 3; keepalive time 1;\n' "${who/-/_}" "$(lab_number "$who")"
			printf '\tconnect delay time 1; error wait time 1, 2; ipv4 { import all; export none; }; }\n'
		done
	} >"$LAB_DIR/client.bird"
	bird client
}

# hops: the balancers that the router sends to.
hops() { ip -n "$LAB-client" route show 203.0.113.0/24 | grep -o 'via 10[0-9.]*' | sort | tr -d '\n'; }
# ways HOPS
ways() { [[ $(hops) == "$1" ]]; }
BOTH='via 10.0.0.10via 10.0.0.23' OTHER='via 10.0.0.23'

# ---- The client. ----

by_port() { lab_in client python3 "$CLIENT" once "$ADDRESS" 80 "$1" "$COUNT"; }
how() { awk -v how="$1" '$1 == how' "$LAB_DIR/keep" | wc -l; }
# opened WHO: connections that this balancer has begun.
opened() { lab_in "$1" "$SLUICE" status --pins "$LAB_PINS-$1" -o json | jq '[.outcomes.new_remote, .outcomes.new_forwarded // 0] | add'; }

declare -A AGENT DAEMON
lab_up bird
BIRD=${BIRD:-$("$SLUICE_ROOT/scripts/lib/bird")}
LIBRARIES=$BIRD/usr/lib/$(gcc -print-multiarch)
lab_backends
second
head -c 32 /dev/urandom >"$LAB_DIR/secret"
rm "$LAB_MANIFESTS"/*
service >"$LAB_MANIFESTS/services.yaml"
ip -n "$LAB-client" route delete 203.0.113.0/24
router_bird
for who in "${BALANCERS[@]}"; do
	balancer_bird "$who"
	lab_wait 10 birdc "$who" show status || die "$who: no BIRD: $(cat "$LAB_DIR/bird-$who.log")"
	guide_watch "$who" >/dev/null
done
ways '' || die "announced without a server: $(hops)"
for who in "${BALANCERS[@]}"; do
	balancer "$who"
	lab_wait 30 lab_in "$who" curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "$who: $(tail -n 5 "$LAB_DIR/agent-$who.log")"
	guide_watch "$who"
done
lab_wait 30 ways "$BOTH" || die "the router has no two ways: $(hops): $(birdc client show protocols)"
printf 'a balancer that serves is announced: %s\n' "$(hops)"

by_port "$FIRST" >"$LAB_DIR/before" || die "not all are answered: $(tail -n 3 "$LAB_DIR/before")"
for who in "${BALANCERS[@]}"; do (($(opened "$who") > 0)) || die "$who is not used"; done
(($(cut -d' ' -f2 "$LAB_DIR/before" | sort -u | wc -l) == 2)) || die "one backend alone was chosen"
lab_start client keep python3 "$CLIENT" keep "$ADDRESS" 80 "$FIRST" "$COUNT" "$LAB_DIR/stop"
KEEPER=$LAB_STARTED
lab_wait 20 grep -q '^open' "$LAB_DIR/keep" || die "not all connections come about: $(cat "$LAB_DIR/keep")"

# The first balancer dies with all that runs there, as a machine does.
lab_stop "${AGENT[node]}" KILL || true
lab_stop "${DAEMON[node]}" KILL || true
ip -n "$LAB-node" link set eth0 down
lab_wait 20 ways "$OTHER" || die "the router keeps the way: $(hops)"
lab_wait 20 eval '(($(how reset) > 0))' || die "no connection of the killed one was reset: $(cat "$LAB_DIR/keep")"
# Each of these asked ten times a second: what hangs has been seen to within the client's own five seconds.
sleep 6
touch "$LAB_DIR/stop"
wait "$KEEPER" || true
(($(how good) > 0 && $(how good) + $(how reset) == COUNT)) || die "not each went on or was reset: $(cat "$LAB_DIR/keep")"
by_port "$FIRST" >"$LAB_DIR/after" || die "not all are answered: $(tail -n 3 "$LAB_DIR/after")"
diff "$LAB_DIR/before" "$LAB_DIR/after" || die "another backend than before"
printf 'one of two killed: of %d connections %d went on, %d were reset; all %d have the same backend again\n' "$COUNT" "$(how good)" "$(how reset)" "$COUNT"
rm -rf "$LAB_PINS"-*
