#!/bin/bash
# A network card's own XDP: virtio-net of qemu, whose other ends are taps that a bridge joins. The node's uplink is one of these devices, the
# lab's bridge has another; so what the node takes and sends passes the driver's rings both ways. Devices with queues for each processor, with
# one queue, with small buffers, at an MTU of 9,000, and one that refuses XDP; XDP from and to a device of another kind.
# guest: VM_CPUS=2 VM_NICS=4+4+1+4,mrg_rxbuf=off+4,ctrl_guest_offloads=off
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# The guest's devices: by number as in the line above. The lab's bridge has the first.
NICS=()
SWITCH=0 QUEUES=1 ONE_QUEUE=2 SMALL=3 REFUSING=4

# nics: the names of the devices by their addresses, because another driver may have named one.
nics() {
	local number
	modprobe virtio_net
	for number in 0 1 2 3 4; do
		NICS[number]=$(ip -j link show | jq -r --arg mac "52:54:00:00:00:0$number" '.[] | select(.address == $mac) | .ifname')
		[[ -n ${NICS[number]} ]] || die "finds no virtio-net device $number"
	done
}

# lab_attach WHO: the node by a card of its own, the others by a veth; the bridge's card goes with the node's.
lab_attach() {
	if [[ $1 != node ]]; then
		lab_port "$1" eth0
	else
		ip link set "${NICS[CARD]}" netns "$LAB-node" name eth0
		ip link set "${NICS[SWITCH]}" netns "$LAB-net" name to-node
		ip -n "$LAB-net" link set to-node master bridge up mtu "$MTU"
		ip -n "$LAB-node" link set eth0 up mtu "$MTU"
	fi
	ip -n "$LAB-$1" link set eth0 mtu "$MTU"
	[[ $1 == node ]] || ip -n "$LAB-net" link set "to-$1" mtu "$MTU"
	lab_address "$1"
}

# given_back: the cards, before the lab that has them ends.
given_back() {
	ip -n "$LAB-node" link set eth0 down
	ip -n "$LAB-node" link set eth0 netns 1 name "${NICS[CARD]}"
	ip -n "$LAB-net" link set to-node down nomaster
	ip -n "$LAB-net" link set to-node netns 1 name "${NICS[SWITCH]}"
	lab_down
}

packets() { lab_sluice status -o json | jq -r .packets; }
without() { lab_sluice status -o json | jq -r .without; }
expects() { [[ $(packets) == *"$1"* ]] || die "packets: $(packets), not '$1'; without: $(without); $(dmesg | tail -n 3)"; }

# started CARD MTU MODE [DEVICES]
started() {
	CARD=$1 MTU=$2 LAB_DEVICES=${4:-eth0}
	lab_up virtio
	BULK_SERVERS=()
	lab_guest
	lab_backends
	[[ -z ${4:-} ]] || other_kind
	lab_agent --pod-devices pod --xdp "$3"
	bulk_service TCP UDP
}

# traffic WHAT
traffic() {
	served "$1"
	bulk_both client TCP
	bulk_both client UDP
	bulk_both guest TCP
}

# by_xdp: the programs of the card's driver did it, and nothing that they sent was lost.
by_xdp() {
	counted new_xdp flow_xdp new_from_pod
	[[ $(lab_in node curl -fsS http://127.0.0.1:10249/metrics | awk '/^sluice_xdp_frames_lost_total/ { sum += $2 } END { print sum + 0 }') == 0 ]] ||
		die "XDP lost frames: $(lab_in node curl -fsS http://127.0.0.1:10249/metrics | grep frames_lost)"
}

# other_kind: worker-c by a veth of its own.
other_kind() {
	ip -n "$LAB-node" link add eth1 type veth peer name eth1 netns "$LAB-worker-c"
	local who number
	for who in node worker-c; do
		number=$(lab_number "$who")
		nsenter --net="/run/netns/$LAB-$who" ethtool -K eth1 gro on tx off >/dev/null
		ip -n "$LAB-$who" link set eth1 up
		ip -n "$LAB-$who" address add "10.0.1.$number/24" dev eth1
		ip -n "$LAB-$who" address add "fd00:11::$number/64" dev eth1 nodad
	done
	ip -n "$LAB-node" route replace 10.244.4.0/24 via 10.0.1.23
	ip -n "$LAB-node" route replace fd00:10:244:4::/64 via fd00:11::23
	ip -n "$LAB-worker-c" route add 10.0.0.10/32 via 10.0.1.10
	ip -n "$LAB-worker-c" route add fd00:10::10/128 via fd00:11::10
	ip -n "$LAB-worker-c" route replace 10.244.1.0/24 via 10.0.1.10
	ip -n "$LAB-worker-c" route replace fd00:10:244:1::/64 via fd00:11::10
}

nics
started "$QUEUES" 1500 auto
expects "eth0 $HOOKS+native"
traffic "a queue for each processor and for XDP"
by_xdp
given_back

started "$ONE_QUEUE" 1500 native
expects "eth0 $HOOKS+native"
traffic "one queue"
by_xdp
given_back

started "$REFUSING" 1500 auto
expects "eth0 $HOOKS"
[[ $(packets) != *native* ]] || die "XDP is attached: $(packets)"
[[ $(without) == *"eth0"*"no native XDP"*"ctrl_guest_offloads"* ]] || die "status does not say what to do: $(without)"
traffic "a host that keeps its offloads"
given_back

if [[ -n ${SLUICE_LONG:-} ]]; then
	started "$SMALL" 1500 native
	traffic "buffers that are not merged"
	by_xdp
	given_back
	started "$QUEUES" 9000 auto
	# Frames in several buffers: from 6.3 on.
	[[ $KERNEL == 6.1 ]] || expects "eth0 $HOOKS+native"
	[[ $KERNEL != 6.1 ]] || [[ $(without) == *"no native XDP"*"MTU"* ]] || die "status does not say what to do: $(without)"
	traffic "an MTU of 9,000"
	given_back
	started "$QUEUES" 1500 native eth0,eth1
	expects "eth1 $HOOKS+native"
	traffic "cards of different kinds"
	by_xdp
	given_back
fi
