#!/bin/bash
# Backends behind devices whose packets have no Ethernet header: WireGuard (both families in one), and ipip with ip6ip6 as CNIs use them. Such a
# device is refused by name where it is given as one of the node's, and what lies behind it is served through the stack.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

keys() { # WHO: its private key in a file, its public one in another
	wg genkey | tee "$LAB_DIR/$1.private" | wg pubkey >"$LAB_DIR/$1.public"
}

# way WHO PEER DEVICE PODS: WHO's route to the PODS of the third part 10.244.PODS, as lab_worker's, by DEVICE.
way() {
	ip -n "$LAB-$1" route replace "10.244.$3.0/24" dev "$2"
	ip -n "$LAB-$1" route replace "fd00:10:244:$3::/64" dev "${4:-$2}"
}

# wireguard: one device a node, the node's with each worker as a peer.
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
		way "$who" tunnel 1
		way node tunnel "$network"
	done
}

# ipip: a device for each worker and family.
ipip() {
	local who network number
	for who in "${LAB_WORKERS[@]}"; do
		network=$(lab_pod_network "$who") number=$(lab_number "$who")
		tunnels node "$network" "10.0.0.10" "10.0.0.$number" "fd00:10::10" "fd00:10::$number"
		tunnels "$who" 1 "10.0.0.$number" "10.0.0.10" "fd00:10::$number" "fd00:10::10"
	done
	ip -n "$LAB-node" link add tunnel type ipip local 10.0.0.10 remote 10.0.0.99 # the one that is named
	ip -n "$LAB-node" link set tunnel up
}

# tunnels WHO PODS LOCAL REMOTE LOCAL6 REMOTE6
tunnels() {
	ip -n "$LAB-$1" link add "ipip$2" type ipip local "$3" remote "$4"
	ip -n "$LAB-$1" link add "six$2" type ip6tnl mode ip6ip6 local "$5" remote "$6" encaplimit none
	ip -n "$LAB-$1" link set "ipip$2" up
	ip -n "$LAB-$1" link set "six$2" up
	way "$1" "ipip$2" "$2" "six$2"
}

# by KIND: its function and the driver that `status` names.
by() {
	lab_up layer3
	BULK_SERVERS=()
	lab_guest
	"$1"
	lab_backends
	LAB_DEVICES=eth0,tunnel
	lab_agent --pod-devices pod --xdp off
	lab_sluice status -o json | jq -r .without | tee "$LAB_DIR/without"
	grep -q "tunnel: no Ethernet headers ($1), not served" "$LAB_DIR/without" || die "status does not say that tunnel is not served"
	bulk_service TCP UDP
	served "backends behind $1"
	bulk_both client TCP
	bulk_both guest UDP
	counted new_remote new_from_pod socket_translated
	lab_down
}

# What has sent by the tunnel: packets, in and out.
modules wireguard ipip ip6_tunnel
by wireguard
by ipip
