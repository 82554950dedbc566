#!/bin/bash
# SEM-74, SEM-75, REL-84: from kube-proxy's IPVS mode to Sluice and back, without a lost connection; `cleanup --kube-proxy` hands those of IPVS over to
# conntrack, removes what that mode left, and nothing of others. The rules and settings are those that kube-proxy makes for these Services;
# the build machine's kernel has no IPVS, and a guest is too slow for an API server.
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
	lab_in node ipset create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
	lab_in node ipset create KUBE-6-NODE-PORT-TCP bitmap:port range 0-65535
	lab_in node ipset add KUBE-NODE-PORT-TCP "$NODE_PORT"
	lab_in node ipset add KUBE-6-NODE-PORT-TCP "$NODE_PORT"
	lab_in node ipset create KUBE-CLUSTER-IP hash:ip,port
	lab_in node ipset create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port family inet6
	# In kube-proxy's table and with its chain, by which an agent notices it.
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

# remote_weight WEIGHT: of WEB's servers on other nodes. With 0 IPVS gives them no new connection.
remote_weight() {
	local number
	for number in 2 3 4; do lab_in node ipvsadm -e -t "$WEB:80" -r "10.244.$number.10:8080" -m -w "$1"; done
}

# own_servers: the servers of the node's own connections to WEB.
own_servers() { lab_in node ipvsadm -Lnc | awk -v from="$WEB:" -v to="$WEB:80" '$3 == "ESTABLISHED" && index($4, from) == 1 && $5 == to { print $6 }'; }

# others_come: virtual services, a set and a chain of somebody else's, at addresses of theirs.
others_come() {
	lab_in node ipvsadm -A -t 192.0.2.80:80 -s rr
	lab_in node ipvsadm -A -t "$NODE:8443" -s rr
	lab_in node ipvsadm -A -f 7 -s rr
	lab_in node ipset create KUBE-SOMETHING hash:ip
	lab_in node nft add chain ip nat OTHERS
}

# others_are WHEN: there as they came.
others_are() {
	[[ $(lab_in node ipvsadm -Sn | sort) == "-A -f 7 -s rr"$'\n'"-A -t $NODE:8443 -s rr"$'\n'"-A -t 192.0.2.80:80 -s rr" ]] ||
		die "$1: virtual services: $(lab_in node ipvsadm -Sn)"
	[[ $(lab_in node ipset list -n) == KUBE-SOMETHING ]] || die "$1: sets: $(lab_in node ipset list -n)"
	prints OTHERS lab_in node nft list chain ip nat OTHERS || die "$1: the chain OTHERS is gone"
	! ip -n "$LAB-node" link show kube-ipvs0 >/dev/null 2>&1 || die "$1: kube-ipvs0 is left"
}

# others_go: with the last chains of type nat that are not Sluice's.
others_go() {
	lab_in node ipvsadm -C
	lab_in node ipset destroy KUBE-SOMETHING
	lab_in node nft delete table ip nat
	lab_in node nft delete table ip6 nat
}

# end_is_refused: and nothing is changed.
end_is_refused() {
	local said before
	before=$(lab_in node ipvsadm -Sn)
	said=$(lab_sluice cleanup --kube-proxy 2>&1) && die "the node's own connection was ended: $said"
	[[ $said == *"1 of them, as tcp $WEB:"*" to $WEB:80 (the node's own, from an address of kube-ipvs0)"* ]] || die "refused so: $said"
	[[ $(lab_in node ipvsadm -Sn) == "$before" ]] || die "refused, and changed: $(lab_in node ipvsadm -Sn)"
	printf 'refused: %s\n' "$said"
}

own_has_ended() { ! prints "ESTABLISHED $WEB:[0-9]* *$WEB:80" lab_in node ipvsadm -Lnc; }

# ipvs_ends: by Sluice; a second time there is nothing to do.
ipvs_ends() {
	lab_sluice cleanup --kube-proxy | tee "$LAB_DIR/cleanup"
	others_are "cleaned up"
	lab_sluice cleanup --kube-proxy >"$LAB_DIR/again"
	[[ $(<"$LAB_DIR/again") == "nothing of kube-proxy is left on this node" ]] || die "a second time: $(<"$LAB_DIR/again")"
	others_are "cleaned up twice"
}

# established: connections that IPVS translates.
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
	switch_open "$1" "$first"
	switch_client client fresh tcp "$NODE6" "$NODE_PORT"
	switch_client guest fresh tcp "$WEB" 80
	# From ports that were not used before: for two minutes IPVS takes a reply of the same server to the same port for one of the
	# connection through it that has ended, and writes the service's address into it. That hangs a socket's direct connection.
	switch_client pod once tcp "$WEB6" 80
}

modules dummy ip_vs ip_vs_rr nf_conntrack ip_set_bitmap_port ip_set_hash_ipport
lab_up ipvs-switch
lab_guest
lab_backends
ipvs_begins
others_come
clients "IPVS alone"
before=$(established)
((before > 0)) || die "nothing goes through IPVS: $(lab_in node ipvsadm -Ln)"
# The node's own connections through IPVS come from addresses that it has for IPVS alone: nobody can carry those on. One to the
# server of this node, whose replies are sent to such an address: what leaves by eth0 is masqueraded.
remote_weight 0
switch_client node keep tcp "$WEB" 80
own=$((${#SWITCH_CLIENTS[@]} - 1))
switch_open "the node's own" "$own"
remote_weight 1
[[ $(own_servers) == 10.244.1.10:8080 ]] || die "the node's own connection has: $(own_servers); $(lab_in node ipvsadm -Lnc)"

lab_agent --pod-devices pod --xdp off --max-flows 16384
switch_passes 6 "beside IPVS"
counted new_remote new_from_pod flow_redirect socket_translated
still=$(established)
((still > 0)) || die "IPVS lost the connections that it had"
printf 'IPVS translates %d connections, %d before\n' "$still" "$before"

end_is_refused
lab_stop "${SWITCH_CLIENTS[own]%% *}" || true
unset "SWITCH_CLIENTS[own]"
rm "$LAB_DIR/client-$own"
lab_wait 20 own_has_ended || die "IPVS keeps the node's own connection"

# What IPVS began conntrack carries on; what Sluice has begun needs neither.
switch_client node keep udp "$DNS6" 53
switch_open "begun with Sluice" "$own"
ipvs_ends
others_go
switch_passes 6 "IPVS is gone"

# And back to IPVS.
ipvs_begins
lab_sluice drain --deadline 30 | tee "$LAB_DIR/drain"
switch_passes 4 "drained beside IPVS"
lab_stop "$LAB_AGENT"
lab_sluice cleanup >"$LAB_DIR/cleanup" || die "not all is removed: $(<"$LAB_DIR/cleanup")"
switch_passes 6 "IPVS alone again"
switch_ends
