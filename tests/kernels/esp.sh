#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# IPsec between the node and one of the workers: transport mode between the node and that worker's pod, tunnel mode between the
# node's pods and the worker's. Packets that pass the stack (from sockets, and from pods) are encrypted. Packets that Sluice
# would redirect in the clear (from external clients) are refused (outcome ipsec), and the other backends serve. No packet of
# the worker's pod is readable on the wire (REL-88), although tenants' source ranges have filled lb_ranges before (REL-156). With
# more policies than even the reserve holds, all that Sluice would redirect is refused (REL-160).
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

KEY=0x0123456789abcdef0123456789abcdef01234567

# states ONE OTHER SPI MODE: adds the states for both directions between these two addresses, on both machines.
states() {
	local who
	for who in node worker-a; do
		state "$who" "$1" "$2" "$3" "$4"
		state "$who" "$2" "$1" $(($3 + 1)) "$4"
	done
}

# state WHO FROM TO SPI MODE: adds a state.
state() {
	lab_in "$1" ip xfrm state add src "$2" dst "$3" proto esp spi "$4" reqid "$4" mode "$5" aead 'rfc4106(gcm(aes))' "$KEY" 128
}

# policy WHO DIRECTION FROM TO TEMPLATE-FROM TEMPLATE-TO SPI MODE: adds a policy.
policy() {
	lab_in "$1" ip xfrm policy add src "$3" dst "$4" dir "$2" tmpl src "$5" dst "$6" proto esp reqid "$7" mode "$8"
}

# transport NODE POD SPI: configures transport mode between these two, in both directions.
transport() {
	states "$1" "$2" "$3" transport
	policy node out "$1" "$2" "$1" "$2" "$3" transport
	policy worker-a in "$1" "$2" "$1" "$2" "$3" transport
	policy worker-a out "$2" "$1" "$2" "$1" $(($3 + 1)) transport
	policy node in "$2" "$1" "$2" "$1" $(($3 + 1)) transport
}

# tunnel PODS OTHER-PODS NODE WORKER SPI: configures tunnel mode between the pods of both.
tunnel() {
	states "$3" "$4" "$5" tunnel
	policy node out "$1" "$2" "$3" "$4" "$5" tunnel
	policy worker-a in "$1" "$2" "$3" "$4" "$5" tunnel
	policy worker-a out "$2" "$1" "$4" "$3" $(($5 + 1)) tunnel
	policy node fwd "$2" "$1" "$4" "$3" $(($5 + 1)) tunnel
}

# answers WHO ADDRESS PORT: prints the backends that reply to 30 new connections, and counts refusals and timeouts, as JSON.
answers() { lab_ask "$1" tcp "$2" "$3" --count 30 --timeout 10 --json || true; }

# encrypted: checks that the wire carries ESP, and no other packets of the worker's pod.
encrypted() {
	lab_stop "$CAPTURE" INT || true
	tcpdump -Z root -nr "$LAB_DIR/wire" >"$LAB_DIR/packets" 2>/dev/null
	(($(grep -c 'ESP(spi' "$LAB_DIR/packets") > 20)) || die "only $(grep -c 'ESP(spi' "$LAB_DIR/packets") packets of ESP"
	! grep -v 'ESP(spi' "$LAB_DIR/packets" | grep -F -e 10.244.2.10 -e fd00:10:244:2::10 || die "in the clear, above"
}

# greedy: Services whose source ranges fill what lb_ranges has for services.
greedy() {
	local number at
	for number in 1 2 3; do
		cat <<-END
			---
			apiVersion: v1
			kind: Service
			metadata: {namespace: tenant, name: greedy-$number}
			spec:
			  type: LoadBalancer
			  clusterIP: 10.96.9.$number
			  ports: [{name: http, port: 80}]
			  loadBalancerSourceRanges:
		END
		for ((at = 1; at <= 120; at++)); do printf '  - 172.16.%d.%d/32\n' "$number" "$at"; done
		printf 'status: {loadBalancer: {ingress: [{ip: 203.0.113.20%d}]}}\n' "$number"
	done
}

ranges_used() { lab_sluice status -o json | jq .maps.lb_ranges.used; }
ranges_are() { (($(ranges_used) == $1)); }

modules esp4 esp6
up esp off --max-ranges 256 --fixed-sizes
BEFORE=$(ranges_used)
greedy >"$LAB_MANIFESTS/greedy.yaml"
lab_wait 20 ranges_are $((240 + BEFORE)) || die "lb_ranges has $(ranges_used) entries"
transport "$NODE" 10.244.2.10 0x100
transport "$NODE6" fd00:10:244:2::10 0x110
tunnel 10.244.1.0/24 10.244.2.0/24 "$NODE" 10.0.0.21 0x200
tunnel fd00:10:244:1::/64 fd00:10:244:2::/64 "$NODE6" fd00:10::21 0x210
# The policies for packets that leave or are forwarded: four of direction out, two of direction fwd.
lab_wait 20 prints 'ipsec: 6 policies' lab_sluice status -o json ||
	die "status does not report the policies: $(lab_sluice status -o json | jq -r .without)"
lab_start net wire.log tcpdump -Z root -i to-worker-a -U -w "$LAB_DIR/wire" "not arp and not icmp6"
CAPTURE=$LAB_STARTED
lab_wait 20 grep -q listening "$LAB_DIR/wire.log" || die "tcpdump does not start"
# Through the stack all four backends reply.
for request in "node $WEB" "node $WEB6" "pod $WEB" "pod $WEB6" "guest $WEB" "guest $WEB6"; do
	read -r who address <<<"$request"
	result=$(answers "$who" "$address" 80)
	printf '%s %s: %s\n' "$who" "$address" "$result"
	[[ $(jq -c '[.answers["web-a"] > 0, .failed == {}]' <<<"$result") == "[true,true]" ]] || die "not served through the stack"
done
# The packets of an external client would be redirected: all backends but web-a reply.
for address in "$NODE" "$NODE6"; do
	result=$(answers client "$address" "$NODE_PORT")
	printf 'client %s: %s\n' "$address" "$result"
	[[ $(jq -c '.answers | keys' <<<"$result") == '["web-b","web-c","web-pod"]' ]] || die "web-a answers, or another backend does not"
done
counted ipsec
encrypted
# More policies than there is room for.
for at in {1..30}; do lab_in node ip xfrm policy add src "$NODE" dst "192.0.2.$at" dir out action block; done
lab_wait 20 prints 'whose ranges are not all in lb_ranges' lab_sluice status -o json || die "status does not report the lack of room"
result=$(answers client "$NODE" "$NODE_PORT")
printf 'without room for policies, client: %s\n' "$result"
[[ $(jq -c '.answers | keys' <<<"$result") == '[]' ]] || die "a backend answers, though its way may be covered by a policy"
result=$(answers node "$WEB" 80)
[[ $(jq -c '.failed == {}' <<<"$result") == true ]] || die "the stack's way is refused: $result"
for at in {1..30}; do lab_in node ip xfrm policy delete src "$NODE" dst "192.0.2.$at" dir out; done
lab_wait 20 prints 'behind them are refused' lab_sluice status -o json || die "status still reports the lack of room"
result=$(answers client "$NODE" "$NODE_PORT")
[[ $(jq -c '.answers | keys' <<<"$result") == '["web-b","web-c","web-pod"]' ]] || die "not served again: $result"
printf 'nothing in the clear\n'
