#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What third-party tools report about services, on every path: curl, ncat, ping and traceroute, from outside, from a pod's
# and the node's sockets, and from a guest that is served by packets only. With SLUICE_WITHOUT the same by every fallback.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

WEB=10.96.0.80 WEB6=fd00:10:96::80
DNS=10.96.0.10 DNS6=fd00:10:96::10
PUBLIC=203.0.113.80 PUBLIC6=2001:db8:113::80
NODE=10.0.0.10 NODE6=fd00:10::10 NODE_PORT=30080
PODS=(10.244.1.10 fd00:10:244:1::10) # the node's

# url ADDRESS PORT: the service's URL.
url() { if [[ $1 == *:* ]]; then printf 'http://[%s]:%s/\n' "$1" "$2"; else printf 'http://%s:%s/\n' "$1" "$2"; fi; }

# answered WHAT WORDS COMMAND...: checks that COMMAND succeeds and prints WORDS, a pattern.
answered() {
	local said
	said=$("${@:3}" 2>&1) || die "$1: failed: $said"
	[[ $said =~ $2 ]] || die "$1: does not say '$2': $said"
}

# never WHAT WORDS TEXT: checks that TEXT does not contain WORDS.
never() { [[ ! $3 =~ $2 ]] || die "$1: says '$2': $3"; }

# places WHO: the addresses at which WHO reaches the web service; localhost's node ports too (SEM-35).
places() {
	case $1 in
	client) printf '%s\n' "$NODE $NODE_PORT" "$NODE6 $NODE_PORT" "$PUBLIC 80" "$PUBLIC6 80" "$WEB 80" "$WEB6 80" ;;
	node) printf '%s\n' "$WEB 80" "$WEB6 80" "127.0.0.1 $NODE_PORT" "::1 $NODE_PORT" ;;
	*) printf '%s\n' "$WEB 80" "$WEB6 80" "$PUBLIC 80" "$PUBLIC6 80" "$NODE $NODE_PORT" "$NODE6 $NODE_PORT" ;;
	esac
}

# by_ncat OPTION... WHO ADDRESS PORT: sends standard input and prints the reply; ends after a second without data.
by_ncat() { lab_in "${@: -3:1}" ncat --idle-timeout 1 "${@:1:$#-3}" "${@: -2}" 2>&1 || true; }
http_by_hand() { printf 'GET / HTTP/1.0\r\n\r\n' | by_ncat "$@"; }
ask_once() { (printf 'who?\n' && sleep 0.5) | by_ncat -u "$@" 53; } # ncat -u does not wait for answers when its input has ended

by_tcp() {
	local who address port
	for who in client node pod guest; do
		while read -r address port; do
			answered "curl in $who to $address" '^web-' lab_in "$who" curl -fsS -m 5 "$(url "$address" "$port")"
			answered "curl in $who sends a megabyte to $address" ' 1048576$' \
				lab_in "$who" curl -fsS -m 10 --data-binary @"$LAB_DIR/megabyte" "$(url "$address" "$port")"
		done < <(places "$who")
		while read -r address port; do
			answered "ncat in $who to $address" 'web-' http_by_hand "$who" "$address" "$port"
		done < <(places "$who" | sed -n 1,2p)
		printf '%s: curl and ncat are answered\n' "$who"
	done
}

heard() { [[ $(ask_once "$@") == *web-* ]]; }

by_udp() {
	local who address
	for who in client node pod guest; do
		for address in "$DNS" "$DNS6"; do
			lab_wait 10 heard "$who" "$address" || die "ncat -u in $who is not answered by $address"
		done
	done
	printf 'ncat -u is answered everywhere\n'
}

# refused WHAT CODE COMMAND...: checks that COMMAND, which may wait for 30 s, exits with CODE long before that: it was refused.
# What it says differs between its versions.
refused() {
	local said code=0 start=$SECONDS
	said=$("${@:3}" 2>&1) || code=$?
	((code == $2)) || die "$1: exit code $code, not $2: $said"
	((SECONDS - start < 15)) || die "$1: is not refused, but gives up after $((SECONDS - start)) s: $said"
}

# refused_at_once WHO ADDRESS: checks that TCP is refused before it would send its SYN again.
refused_at_once() {
	local said
	said=$(printf '[["TCP", "%s", 79, 2]]\n' "$2" | lab_in "$1" python3 "$SLUICE_ROOT/tests/e2e/lib/prober.py" ask)
	[[ $said == '[{"refused": 2}]' ]] || die "TCP in $1 to an unknown port of $2: $said"
}

refusals() {
	local who address
	for who in client guest pod node; do
		for address in "$WEB" "$WEB6"; do
			refused_at_once "$who" "$address"
			refused "ping in $who to $address" 1 lab_in "$who" ping -n -c 1 -W 30 "$address"
			refused "curl in $who to an unknown port of $address" 7 lab_in "$who" curl -sS -m 30 "$(url "$address" 79)"
		done
	done
	printf 'pings and unknown ports of ClusterIPs are refused at once\n'
}

# pinged WHO ADDRESS [OPTION...]: checks that three pings are answered: with a deadline, any that is lost is a failure.
pinged() {
	local said
	said=$(lab_in "$1" ping -n -c 3 -w 10 -i 0.2 "${@:3}" "$2" 2>&1) || die "ping in $1 to $2: $said"
}

pings() {
	local who address
	for who in client guest; do
		for address in "${PODS[@]}" "$NODE" "$NODE6"; do
			pinged "$who" "$address" -s 1400
		done
	done
	pinged node 10.244.2.10
	printf 'pings of pods and of the node pass\n'
}

# route WHO ADDRESS PORT: checks that traceroute shows the node, then the service, and no backends.
route() {
	local said family=4 node=$NODE
	[[ $2 != *:* ]] || family=6 node=$NODE6
	said=$(lab_in "$1" traceroute "-$family" -n -q 1 -w 3 -N 1 -m 6 -T -p "$3" "$2" 2>&1) || die "traceroute in $1 to $2: $said"
	[[ $said =~ \ 1\ \ $node\  ]] || die "traceroute in $1 to $2 does not name the node first: $said"
	[[ $said =~ \ 2\ \ $2\  ]] || die "traceroute in $1 to $2 does not name the service next: $said"
	never "traceroute in $1 to $2" '10\.244\.|fd00:10:244:' "$said"
}

routes() {
	local who
	for who in client guest; do
		route "$who" "$PUBLIC" 80
		route "$who" "$PUBLIC6" 80
		route "$who" "$WEB" 80
		route "$who" "$WEB6" 80
	done
	printf 'SEM-41: traceroute names the node, then the service, never a backend\n'
}

# ---- --drop-unallocated, which stands back where kube-proxy has rules (choice A). ----

drops() { lab_sluice status -o json | jq '.outcomes.unallocated'; }
knock() { lab_in node bash -c 'echo anybody >/dev/udp/10.96.9.9/9'; }
has_rules() { [[ $(lab_in node curl -sS -m 5 http://127.0.0.1:10249/metrics | awk '/^sluice_kube_proxy_rules/ { print $2 }') == "$1" ]]; }
dropped_since() { knock && (($(drops) > $1)); }

unallocated() {
	local before
	lab_stop "$LAB_AGENT" || true
	lab_in node nft add table ip kube-proxy
	lab_agent --xdp native --pod-devices pod --drop-unallocated --service-cidr 10.96.0.0/16
	has_rules 1 || die "the metric does not say that kube-proxy's rules are there"
	[[ $(lab_sluice status -o json | jq -r .without) == *"drop-unallocated: kube-proxy's rules are here"* ]] || die "status does not say it"
	grep -q "kube-proxy's rules are here (nftables)" "$LAB_DIR/agent.log" || die "the log does not say it"
	before=$(drops)
	knock
	(($(drops) == before)) || die "an address of the service range is dropped beside kube-proxy's rules"
	lab_in node nft delete table ip kube-proxy
	lab_wait 15 has_rules 0 || die "kube-proxy's rules are gone, and the metric says that they are there"
	lab_wait 5 dropped_since "$before" || die "an address of the service range is not dropped without kube-proxy"
	lab_in node iptables-nft -t nat -N KUBE-SERVICES
	lab_wait 15 has_rules 1 || die "the rules of kube-proxy's iptables mode are not seen"
	before=$(drops)
	knock
	(($(drops) == before)) || die "an address is dropped beside the rules of kube-proxy's iptables mode"
	printf 'unallocated addresses of the service range are dropped, but not beside rules of kube-proxy\n'
}

lab_up tools
lab_guest
lab_offload off
lab_in net ethtool -K to-node tx off >/dev/null # what GRO put together there is cut again, as on a wire
ip -n "$LAB-client" route add 10.244.0.0/16 via "$NODE"
ip -n "$LAB-client" route add fd00:10:244::/48 via "$NODE6"
head -c 1048576 /dev/urandom >"$LAB_DIR/megabyte"
lab_backends
lab_agent --xdp native --pod-devices pod
printf 'packets: %s\n' "$(lab_sluice status -o json | jq -r .packets)"
by_tcp
by_udp
refusals
pings
routes
unallocated
