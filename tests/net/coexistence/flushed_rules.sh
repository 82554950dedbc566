#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-84, REL-89: after all rules of the node are flushed (nft flush ruleset, as nftables.service does when it starts, or iptables -F)
# conntrack tracks again, and translates connections that kube-proxy began again, at once: the agent is notified, and recreates its tables,
# long before its timer of half a minute.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=scripts/lib/kube_proxy_rules.sh
source "$SLUICE_ROOT/scripts/lib/kube_proxy_rules.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"

POD=10.244.1.10 POD6=fd00:10:244:1::10
WAIT=10 # seconds: of the timer's half a minute

# exist KIND: Sluice's tables of that kind (ct: tracking, nat: translation) are there, of both families.
exist() { [[ $(lab_in node nft list tables | grep -c "sluice-$1-$LAB\$") == 2 ]]; }

# signal_clients SIGNAL: sends it to all clients of switch_client.
signal_clients() {
	local each
	for each in "${SWITCH_CLIENTS[@]}"; do kill "-$1" "${each%% *}"; done
}

# began_with_kube_proxy: checks that connections that kube-proxy began, and which are idle at that moment, survive a flush.
began_with_kube_proxy() {
	kube_proxy_comes
	switch_client client keep tcp 10.0.0.10 30080
	switch_client client keep tcp fd00:10::10 30080
	switch_open "begun with kube-proxy" 0
	lab_agent --xdp off
	lab_wait "$WAIT" exist nat || die "no table keeps conntrack translating: $(lab_in node nft list tables)"
	kube_proxy_goes
	switch_passes 1 "kube-proxy's rules gone"
	signal_clients STOP
	sleep 1
	lab_in node nft flush ruleset
	lab_wait "$WAIT" exist nat || die "the tables for translation are not back: $(lab_in node nft list tables)"
	signal_clients CONT
	switch_passes 6 "nft flush ruleset, connections of kube-proxy"
	switch_ends
}

# tracked FAMILY: how many connections conntrack knows in the node.
tracked() { lab_in node conntrack -L -f "$1" -p tcp 2>/dev/null | grep -c dport=8080 || true; }

# tracks ADDRESS FAMILY: conntrack knows a new connection of a client straight to a pod, and knew none before.
tracks() {
	lab_in node conntrack -F >/dev/null 2>&1
	[[ $(tracked "$2") == 0 ]] || die "conntrack knows connections before there is one"
	lab_ask client tcp "$1" 8080 >/dev/null
	(($(tracked "$2") > 0)) || die "conntrack does not know a connection to $1: $(lab_in node nft list ruleset)"
}

lab_up flushed
lab_in client ip route add 10.244.1.0/24 via 10.0.0.10
lab_in client ip route add fd00:10:244:1::/64 via fd00:10::10
lab_backends
began_with_kube_proxy
exist ct || die "the agent made no tables: $(lab_in node nft list tables)"
tracks "$POD" ipv4
tracks "$POD6" ipv6
for round in {1..8}; do
	lab_in node nft flush ruleset
	lab_wait "$WAIT" exist ct || die "round $round: the tables are not back: $(lab_in node nft list tables)"
	tracks "$POD" ipv4
	tracks "$POD6" ipv6
done
printf 'nft flush ruleset, %d times: tracked again\n' "$round"
for tables in iptables ip6tables; do
	lab_in node "$tables" -t nat -A POSTROUTING -j ACCEPT
	for table in filter nat mangle raw; do
		lab_in node "$tables" -t "$table" -F
		lab_in node "$tables" -t "$table" -X
	done
done
lab_wait "$WAIT" exist ct || die "after iptables -F the tables are not back: $(lab_in node nft list tables)"
tracks "$POD" ipv4
tracks "$POD6" ipv6
printf 'iptables -F: tracked\n'
