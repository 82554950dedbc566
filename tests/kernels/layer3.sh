#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backends behind devices whose packets have no Ethernet header, as CNIs use them: WireGuard (both families in one device),
# ipip with ip6ip6, and GRE. If such a device is named in --devices, status reports that it is not served. Backends behind it
# are served through the stack, with the client's address kept, so the replies of the workers' pods use the tunnel.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# keys WHO: writes WHO's private key and public key to files.
keys() {
	wg genkey | tee "$LAB_DIR/$1.private" | wg pubkey >"$LAB_DIR/$1.public"
}

# set_route WHO DEVICE PODS [DEVICE6]: routes WHO's packets to the pods 10.244.PODS.0/24, as lab_worker does, by DEVICE; on a worker
# also its pod's own packets.
set_route() {
	local own
	ip -n "$LAB-$1" route replace "10.244.$3.0/24" dev "$2"
	ip -n "$LAB-$1" route replace "fd00:10:244:$3::/64" dev "${4:-$2}"
	[[ $1 != node ]] || return 0
	own=$(lab_pod_network "$1")
	ip -n "$LAB-$1" route replace default dev "$2" table 77
	ip -n "$LAB-$1" -6 route replace default dev "${4:-$2}" table 77
	ip -n "$LAB-$1" rule add from "10.244.$own.10" lookup 77
	ip -n "$LAB-$1" -6 rule add from "fd00:10:244:$own::10" lookup 77
}

# wireguard: adds one device per node; the node's has each worker as a peer.
wireguard() {
	local who network number
	keys node
	ip -n "$LAB-node" link add tunnel type wireguard
	lab_in node wg set tunnel listen-port 51820 private-key "$LAB_DIR/node.private"
	ip -n "$LAB-node" link set tunnel up
	for who in "${LAB_WORKERS[@]}"; do
		network=$(lab_pod_network "$who") number=$(lab_number "$who")
		keys "$who"
		ip -n "$LAB-$who" link add tunnel type wireguard
		lab_in "$who" wg set tunnel listen-port 51820 private-key "$LAB_DIR/$who.private" peer "$(<"$LAB_DIR/node.public")" \
			endpoint 10.0.0.10:51820 allowed-ips 0.0.0.0/0,::/0
		lab_in node wg set tunnel peer "$(<"$LAB_DIR/$who.public")" endpoint "10.0.0.$number:51820" \
			allowed-ips "10.244.$network.0/24,fd00:10:244:$network::/64"
		ip -n "$LAB-$who" link set tunnel up
		set_route "$who" tunnel 1
		set_route node tunnel "$network"
	done
}

# ipip, gre: add one device for each worker and family.
ipip() { tunnelled ipip ip6tnl mode ip6ip6; }
gre() { tunnelled gre ip6gre; }

# tunnelled KIND KIND6 [OPTION...]: adds the devices on the node and the workers.
tunnelled() {
	local who network number
	for who in "${LAB_WORKERS[@]}"; do
		network=$(lab_pod_network "$who") number=$(lab_number "$who")
		tunnel_to node "$network" 10 "$number" "$@"
		tunnel_to "$who" 1 "$number" 10 "$@"
	done
	ip -n "$LAB-node" link add tunnel type "$1" local 10.0.0.10 remote 10.0.0.99 # the one in LAB_DEVICES
	ip -n "$LAB-node" link set tunnel up
}

# tunnel_to WHO PODS OWN OTHER KIND KIND6 [OPTION...]: adds WHO's devices of both families; OWN and OTHER are the last parts
# of the tunnel's addresses.
tunnel_to() {
	ip -n "$LAB-$1" link add "four$2" type "$5" local "10.0.0.$3" remote "10.0.0.$4"
	ip -n "$LAB-$1" link add "six$2" type "$6" "${@:7}" local "fd00:10::$3" remote "fd00:10::$4" encaplimit none
	ip -n "$LAB-$1" link set "four$2" up
	ip -n "$LAB-$1" link set "six$2" up
	set_route "$1" "four$2" "$2" "six$2"
}

# by KIND: runs all checks with that kind of device; KIND is its function here and its driver in `status`.
by() {
	lab_up layer3
	BULK_SERVERS=()
	lab_guest
	"$1"
	lab_backends
	LAB_DEVICES=eth0,tunnel
	lab_agent --pod-devices pod --xdp off
	lab_sluice status -o json | jq -r .without | tee "$LAB_DIR/without"
	grep -q "tunnel: no Ethernet headers ($1), not served" "$LAB_DIR/without" || die "status does not report that tunnel is not served"
	bulk_service TCP UDP
	served "backends behind $1"
	bulk_both client TCP
	bulk_both guest UDP
	counted new_local new_from_pod socket_translated
	(($(outcome new_remote) == 0)) || die "a flow was redirected to a device without Ethernet headers"
	lab_down
}

modules wireguard ipip ip6_tunnel ip_gre ip6_gre
by wireguard
by ipip
by gre
