#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-74, SEM-75, REL-84: a switch from kube-proxy's IPVS mode to Sluice and back loses no connection. `cleanup --kube-proxy` transfers IPVS's
# connections to conntrack, and removes the state of that mode but not that of other owners. The test creates the rules and settings that
# kube-proxy would create for these Services, because the build machine's kernel has no IPVS, and a virtual machine is too slow for an API
# server. --long: ten times there and back; the clients of the first round last through all rounds.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"

ROUNDS=${SLUICE_LONG:+10}
ROUNDS=${ROUNDS:-1}

# virtual PROTOCOL ADDRESS PORT TARGET: adds a virtual service with the four pods, masqueraded.
virtual() {
	local option=-t address=$2 number
	[[ $1 == tcp ]] || option=-u
	[[ $address != *:* ]] || address="[$address]"
	lab_in node ipvsadm -A "$option" "$address:$3" -s rr
	for number in 1 2 3 4; do
		if [[ $2 == *:* ]]; then
			lab_in node ipvsadm -a "$option" "$address:$3" -r "[fd00:10:244:$number::10]:$4" -m
		else
			lab_in node ipvsadm -a "$option" "$address:$3" -r "10.244.$number.10:$4" -m
		fi
	done
}

# ipvs_starts: configures IPVS as kube-proxy does; a pod's connections to itself are masqueraded, too.
ipvs_starts() {
	local address
	lab_in node bash -c 'cd /proc/sys/net/ipv4/vs && echo 1 >conntrack && echo 1 >expire_nodest_conn && echo 1 >expire_quiescent_template'
	ip -n "$LAB-node" link add kube-ipvs0 type dummy
	for address in "$WEB" "$WEB_OUTSIDE" "$DNS"; do ip -n "$LAB-node" address add "$address/32" dev kube-ipvs0; done
	for address in "$WEB6" "$WEB_OUTSIDE6" "$DNS6"; do ip -n "$LAB-node" address add "$address/128" dev kube-ipvs0 nodad; done
	for address in "$WEB" "$WEB6" "$WEB_OUTSIDE" "$WEB_OUTSIDE6"; do virtual tcp "$address" 80 8080; done
	for address in "$NODE" "$NODE6"; do virtual tcp "$address" "$NODE_PORT" 8080; done
	for address in "$DNS" "$DNS6"; do virtual udp "$address" 53 5353; done
	lab_in node ipset create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
	lab_in node ipset create KUBE-6-NODE-PORT-TCP bitmap:port range 0-65535
	lab_in node ipset add KUBE-NODE-PORT-TCP "$NODE_PORT"
	lab_in node ipset add KUBE-6-NODE-PORT-TCP "$NODE_PORT"
	lab_in node ipset create KUBE-CLUSTER-IP hash:ip,port
	lab_in node ipset create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port family inet6
	# The table and the chain of kube-proxy by which an agent detects it.
	lab_in node nft -f - <<-'NFT'
		table ip nat {
			chain KUBE-SERVICES { }
			chain POSTROUTING {
				type nat hook postrouting priority srcnat
				oifname "eth0" ip saddr != 10.244.0.0/16 ip daddr 10.244.0.0/16 masquerade
				ip saddr 10.244.1.10 ip daddr 10.244.1.10 masquerade
			}
		}
		table ip6 nat {
			chain KUBE-SERVICES { }
			chain POSTROUTING {
				type nat hook postrouting priority srcnat
				oifname "eth0" ip6 saddr != fd00:10:244::/48 ip6 daddr fd00:10:244::/48 masquerade
				ip6 saddr fd00:10:244:1::10 ip6 daddr fd00:10:244:1::10 masquerade
			}
		}
	NFT
}

# remote_weight WEIGHT: sets the weight of WEB's servers on other nodes. With 0 IPVS gives them no new connections.
remote_weight() {
	local number
	for number in 2 3 4; do lab_in node ipvsadm -e -t "$WEB:80" -r "10.244.$number.10:8080" -m -w "$1"; done
}

# own_servers: prints the servers of the node's own connections to WEB.
own_servers() { lab_in node ipvsadm -Lnc | awk -v from="$WEB:" -v to="$WEB:80" '$3 == "ESTABLISHED" && index($4, from) == 1 && $5 == to { print $6 }'; }

# add_foreign: adds virtual services, a set and a chain of another owner, at that owner's addresses.
add_foreign() {
	lab_in node ipvsadm -A -t 192.0.2.80:80 -s rr
	lab_in node ipvsadm -A -t "$NODE:8443" -s rr
	lab_in node ipvsadm -A -f 7 -s rr
	lab_in node ipset create KUBE-SOMETHING hash:ip
	lab_in node nft add chain ip nat OTHERS
}

# foreign_unchanged WHEN: checks that they are unchanged, and that nothing of kube-proxy is left.
foreign_unchanged() {
	[[ $(lab_in node ipvsadm -Sn | sort) == "-A -f 7 -s rr"$'\n'"-A -t $NODE:8443 -s rr"$'\n'"-A -t 192.0.2.80:80 -s rr" ]] ||
		die "$1: virtual services: $(lab_in node ipvsadm -Sn)"
	[[ $(lab_in node ipset list -n) == KUBE-SOMETHING ]] || die "$1: sets: $(lab_in node ipset list -n)"
	prints OTHERS lab_in node nft list chain ip nat OTHERS || die "$1: the chain OTHERS is gone"
	! ip -n "$LAB-node" link show kube-ipvs0 >/dev/null 2>&1 || die "$1: kube-ipvs0 is left"
}

# remove_foreign: removes them, and the last chains of type nat that are not Sluice's.
remove_foreign() {
	lab_in node ipvsadm -C
	lab_in node ipset destroy KUBE-SOMETHING
	lab_in node nft delete table ip nat
	lab_in node nft delete table ip6 nat
}

# cleanup_is_refused: checks that the clean-up refuses because of the node's own connection, and changes nothing.
cleanup_is_refused() {
	local output before
	before=$(lab_in node ipvsadm -Sn)
	output=$(lab_sluice cleanup --kube-proxy 2>&1) && die "the node's own connection was ended: $output"
	[[ $output == *"1 of them, as tcp $WEB:"*" to $WEB:80 (the node's own, from an address of kube-ipvs0)"* ]] || die "another message: $output"
	[[ $(lab_in node ipvsadm -Sn) == "$before" ]] || die "refused, but changed: $(lab_in node ipvsadm -Sn)"
	printf 'refused: %s\n' "$output"
}

own_has_ended() { lacks "ESTABLISHED $WEB:[0-9]* *$WEB:80" lab_in node ipvsadm -Lnc; }

# ipvs_ends: removes IPVS by `sluice cleanup`, and checks that a second run has nothing to do.
ipvs_ends() {
	lab_sluice cleanup --kube-proxy | tee "$LAB_DIR/cleanup"
	foreign_unchanged "cleaned up"
	lab_sluice cleanup --kube-proxy >"$LAB_DIR/again"
	[[ $(<"$LAB_DIR/again") == "nothing of kube-proxy is left on this node" ]] || die "a second time: $(<"$LAB_DIR/again")"
	foreign_unchanged "cleaned up twice"
}

# established: prints the number of connections that IPVS translates.
established() { lab_in node ipvsadm -Lnc | grep -c 'ESTABLISHED\|^UDP' || true; }

# clients WHEN: starts long and new connections from outside, from a pod's sockets and from a pod's packets. They are few
# because a virtual machine is slow.
clients() {
	local first=${#SWITCH_CLIENTS[@]}
	switch_client client keep tcp "$NODE" "$NODE_PORT"
	switch_client client keep tcp "$WEB_OUTSIDE6" 80
	switch_client pod keep tcp "$WEB" 80
	switch_client guest keep tcp "$WEB6" 80
	switch_client guest keep udp "$DNS" 53
	switch_open "$1" "$first"
	switch_client client fresh tcp "$NODE6" "$NODE_PORT"
	switch_client guest fresh tcp "$WEB" 80
	# From unused ports: for two minutes IPVS treats a reply of the same server to the same port as part of the ended connection
	# through IPVS, and writes the service's address into it. A socket's direct connection would hang.
	switch_client pod once tcp "$WEB6" 80
}

# begin_own: the node's own connections through IPVS have source addresses that exist only for IPVS, so they cannot be transferred. This
# one is to the server of this node, which replies to such an address: connections that leave by eth0 are masqueraded.
begin_own() {
	remote_weight 0
	switch_client node keep tcp "$WEB" 80
	OWN=$((${#SWITCH_CLIENTS[@]} - 1))
	switch_open "the node's own" "$OWN"
	remote_weight 1
	[[ $(own_servers) == 10.244.1.10:8080 ]] || die "the node's own connection has: $(own_servers); $(lab_in node ipvsadm -Lnc)"
}

# end_own: ends it, and begins one that needs IPVS no more in its place.
end_own() {
	lab_stop "${SWITCH_CLIENTS[OWN]%% *}" || true
	unset "SWITCH_CLIENTS[OWN]"
	rm "$LAB_DIR/client-$OWN"
	lab_wait 20 own_has_ended || die "IPVS keeps the node's own connection"
	switch_client node keep udp "$DNS6" 53
	switch_open "begun with Sluice" "$OWN"
}

# begin_more ROUND: starts one long connection more by IPVS from each side, after the first round.
begin_more() {
	local first=${#SWITCH_CLIENTS[@]}
	(($1 > 1)) || return 0
	switch_client client keep tcp "$WEB_OUTSIDE" 80
	switch_client guest keep tcp "$WEB6" 80
	switch_open "round $1, begun with IPVS" "$first"
}

# to_sluice ROUND: conntrack continues the connections that began with IPVS; those that began with Sluice need neither.
to_sluice() {
	local before still
	add_foreign
	begin_more "$1"
	before=$(established)
	((before > 0)) || die "round $1: IPVS has no connections: $(lab_in node ipvsadm -Ln)"
	(($1 > 1)) || begin_own
	lab_agent --pod-devices pod --xdp off --max-flows 16384
	switch_passes 6 "round $1, beside IPVS"
	counted new_remote new_from_pod flow_redirect socket_translated
	still=$(established)
	((still > 0)) || die "round $1: IPVS lost its connections"
	printf 'IPVS translates %d connections, %d before\n' "$still" "$before"
	if (($1 == 1)); then
		cleanup_is_refused
		end_own
	fi
	ipvs_ends
	remove_foreign
	switch_passes 6 "round $1, IPVS is removed"
}

to_ipvs() {
	ipvs_starts
	lab_sluice drain --deadline 30 | tee "$LAB_DIR/drain"
	switch_passes 4 "round $1, drained beside IPVS"
	lab_stop "$LAB_AGENT"
	lab_sluice cleanup >"$LAB_DIR/cleanup" || die "round $1: the clean-up failed: $(<"$LAB_DIR/cleanup")"
	switch_passes 6 "round $1, IPVS alone again"
}

modules dummy ip_vs ip_vs_rr nf_conntrack ip_set_bitmap_port ip_set_hash_ipport
lab_up ipvs-switch
lab_guest
lab_backends
ipvs_starts
clients "IPVS alone"
for ((round = 1; round <= ROUNDS; ++round)); do
	to_sluice "$round"
	to_ipvs "$round"
done
switch_ends
