#!/bin/bash
# REL-89: who flushes all rules of the node (nft flush ruleset, as nftables.service does when it starts, or iptables -F) takes conntrack's
# tracking away for a moment alone: the agent is notified, and recreates its tables, long before its timer of half a minute.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

POD=10.244.1.10 POD6=fd00:10:244:1::10
WAIT=10 # seconds: of the timer's half a minute

# kept: both tables of ours are there.
kept() { [[ $(lab_in node nft list tables | grep -c "sluice-ct-$LAB\$") == 2 ]]; }

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
lab_agent --xdp off
kept || die "the agent made no tables: $(lab_in node nft list tables)"
tracks "$POD" ipv4
tracks "$POD6" ipv6
for round in {1..8}; do
	lab_in node nft flush ruleset
	lab_wait "$WAIT" kept || die "round $round: the tables are not back: $(lab_in node nft list tables)"
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
lab_wait "$WAIT" kept || die "after iptables -F the tables are not back: $(lab_in node nft list tables)"
tracks "$POD" ipv4
tracks "$POD6" ipv6
printf 'iptables -F: tracked\n'
