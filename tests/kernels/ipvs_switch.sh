#!/bin/bash
# SEM-74, REL-84: from kube-proxy's IPVS mode to Sluice and back, without a lost connection. The script writes the rules and
# settings that kube-proxy makes for these Services; the build machine's kernel has no IPVS, and a guest is too slow for an
# API server.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"

# virtual PROTOCOL ADDRESS PORT TARGET: a virtual service with the four pods, masqueraded.
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

# ipvs_begins: configures IPVS as kube-proxy does; a pod's connections to itself are masqueraded, too.
ipvs_begins() {
	local address
	lab_in node bash -c 'cd /proc/sys/net/ipv4/vs && echo 1 >conntrack && echo 1 >expire_nodest_conn && echo 1 >expire_quiescent_template'
	ip -n "$LAB-node" link add kube-ipvs0 type dummy
	for address in "$WEB" "$WEB_OUTSIDE" "$DNS"; do ip -n "$LAB-node" address add "$address/32" dev kube-ipvs0; done
	for address in "$WEB6" "$WEB_OUTSIDE6" "$DNS6"; do ip -n "$LAB-node" address add "$address/128" dev kube-ipvs0 nodad; done
	for address in "$WEB" "$WEB6" "$WEB_OUTSIDE" "$WEB_OUTSIDE6"; do virtual tcp "$address" 80 8080; done
	for address in "$NODE" "$NODE6"; do virtual tcp "$address" "$NODE_PORT" 8080; done
	for address in "$DNS" "$DNS6"; do virtual udp "$address" 53 5353; done
	# In kube-proxy's table and with its chain, by which an agent detects it.
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

# ipvs_ends: removes the configuration, as `kube-proxy --cleanup` does.
ipvs_ends() {
	lab_in node ipvsadm -C
	ip -n "$LAB-node" link delete kube-ipvs0
	lab_in node nft delete table ip nat
	lab_in node nft delete table ip6 nat
}

# established: the number of connections that IPVS translates.
established() { lab_in node ipvsadm -Lnc | grep -c 'ESTABLISHED\|^UDP' || true; }

# clients WHEN: long and new connections from outside, from a pod's sockets, from a pod's packets and from the node. Only a
# few: a guest is slow.
clients() {
	local first=${#SWITCH_CLIENTS[@]}
	switch_client client keep tcp "$NODE" "$NODE_PORT"
	switch_client client keep tcp "$WEB_OUTSIDE6" 80
	switch_client pod keep tcp "$WEB" 80
	switch_client guest keep tcp "$WEB6" 80
	switch_client guest keep udp "$DNS" 53
	switch_client node keep udp "$DNS6" 53
	switch_open "$1" "$first"
	switch_client client fresh tcp "$NODE6" "$NODE_PORT"
	switch_client guest fresh tcp "$WEB" 80
	switch_client pod fresh tcp "$WEB6" 80
}

modules dummy ip_vs ip_vs_rr nf_conntrack
lab_up ipvs-switch
lab_guest
lab_backends
ipvs_begins
clients "IPVS alone"
before=$(established)
((before > 0)) || die "nothing goes through IPVS: $(lab_in node ipvsadm -Ln)"

lab_agent --pod-devices pod --xdp off --max-flows 16384
switch_passes 6 "beside IPVS"
counted new_remote new_from_pod flow_redirect socket_translated
still=$(established)
((still > 0)) || die "IPVS lost the connections that it had"
printf 'IPVS translates %d connections, %d before\n' "$still" "$before"
switch_ends

# Connections opened under Sluice do not depend on IPVS.
clients "Sluice before IPVS"
ipvs_ends
switch_passes 6 "IPVS is gone"

# And back to IPVS.
ipvs_begins
lab_sluice drain --deadline 30 | tee "$LAB_DIR/drain"
switch_passes 4 "drained beside IPVS"
lab_stop "$LAB_AGENT"
lab_sluice cleanup >"$LAB_DIR/cleanup" || die "not all is removed: $(<"$LAB_DIR/cleanup")"
switch_passes 6 "IPVS alone again"
switch_ends
