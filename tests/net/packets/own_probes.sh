#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tools on the node send to services without a socket call that the hooks translate: traceroute -T, nmap -sS, SYNs by raw
# sockets, in both families. They reach a backend, once translated, also while a tenant claims the backend's address
# (SEM-140, REL-123), and answers come from the service.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

LIB=$SLUICE_ROOT/tests/net/lib
PLACES=("10.96.7.120 10.0.0.10" "203.0.113.67 10.0.0.10" "fd00:10:96::7:120 fd00:10::10" "2001:db8:113::67 fd00:10::10") # service, own address

outcome() { lab_sluice status -o json | jq ".outcomes.$1"; }

# opened WHAT COMMAND...: runs COMMAND, whose output goes to $LAB_DIR/said; checks that it opened flows, all of them to the backend.
opened() {
	local -r what=$1 before=$(outcome new_remote)
	local backends
	shift
	"$@" >"$LAB_DIR/said" 2>&1 || die "$what: $(cat "$LAB_DIR/said")"
	(($(outcome new_remote) > before)) || die "$what: opened no flow: $(cat "$LAB_DIR/said")"
	backends=$(lab_sluice flows -o json --limit 0 | jq -r '[.flows[].backend] | unique | join(" ")')
	[[ $backends =~ ^(10\.244\.2\.10:8080|\[fd00:10:244:2::10\]:8080| )+$ ]] || die "$what: flows lead to $backends"
}

# probes WHEN
probes() {
	local place address own family
	for place in "${PLACES[@]}"; do
		read -r address own <<<"$place"
		family=4
		[[ $address != *:* ]] || family=6
		opened "$1, raw SYN to $address" lab_in node python3 "$LIB/raw_syn.py" "$own" "$address" 80
		[[ $(cat "$LAB_DIR/said") == SA ]] || die "$1: a raw SYN to $address is answered by $(cat "$LAB_DIR/said")"
		opened "$1, traceroute to $address" lab_in node traceroute "-$family" -n -q 1 -w 3 -N 1 -m 3 -T -p 80 "$address"
		[[ $(cat "$LAB_DIR/said") =~ \ [12]\ \ $address\  ]] || die "$1: traceroute to $address: $(cat "$LAB_DIR/said")"
		[[ ! $(cat "$LAB_DIR/said") =~ 10\.244\.|fd00:10:244: ]] || die "$1: traceroute to $address names a backend: $(cat "$LAB_DIR/said")"
		opened "$1, nmap to $address" lab_in node nmap "-$family" -n -Pn -sS --send-ip --max-retries 0 --max-rtt-timeout 300ms -p 80 "$address"
		# It reads replies by a packet socket, where their source is still the backend, as with kube-proxy: the port seems filtered.
		grep -Eq '^80/tcp (open|filtered)' "$LAB_DIR/said" || die "$1: nmap to $address: $(cat "$LAB_DIR/said")"
		printf '%s, %s: raw SYN, traceroute, nmap\n' "$1" "$address"
	done
}

lab_up probes
lab_backends
ip -n "$LAB-node" route add 10.96.7.0/24 via 10.0.0.1
lab_agent --xdp off
# With a backend elsewhere: the replies of those on the node itself pass no hook.
python3 "$LIB/tenant.py" "$LAB_MANIFESTS" probed-x TCP 80 203.0.113.67,2001:db8:113::67 10.244.2.10:8080,fd00:10:244:2::10:8080
probed() { lab_sluice services "tenant/$1" -o json | jq -e "[.[].frontends[]] | length == $2"; }
lab_wait 10 probed probed-x 4 || die "the service is not there"
probes "by packets"

# The socket hooks see none of these; what they translate is not translated again.
python3 "$LIB/tenant.py" "$LAB_MANIFESTS" thief-y TCP 8080 10.244.2.10,fd00:10:244:2::10 10.244.3.10:8080,fd00:10:244:3::10:8080
lab_wait 10 probed thief-y 4 || die "the claim is not there"
probes "the backend's address is claimed"
for who in node pod; do
	for address in 10.96.7.120 fd00:10:96::7:120; do
		lab_ask "$who" tcp "$address" 80 --count 10 --json >"$LAB_DIR/said" || die "$who to $address: $(cat "$LAB_DIR/said")"
		[[ $(jq -c '.answers | keys' "$LAB_DIR/said") == '["web-a"]' ]] || die "$who to $address: $(jq -c .answers "$LAB_DIR/said")"
	done
done
[[ $(lab_ask node tcp 10.244.2.10 8080) == *web-b* ]] || die "control: the claim is not in force"
