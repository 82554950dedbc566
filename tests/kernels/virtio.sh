#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Native XDP in the driver of a network card: qemu's virtio-net, whose other ends are taps joined by a bridge. The node's
# uplink is one of these devices, the lab's bridge has another, so all frames that the node receives and sends pass the
# driver's rings. Tested are devices with several queues, with one queue, with unmerged buffers, at an MTU of 9,000, and one
# that refuses XDP; and XDP from and to a device of another kind. The drivers' own counters show what XDP received and sent.
# One CPU serves all queues: two emulated ones are unstable.
# guest: VM_CPUS=1 VM_NICS=4+4+1+4,mrg_rxbuf=off+4,ctrl_guest_offloads=off
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# The virtual machine's devices, numbered as in the line above. The lab's bridge has the first.
NICS=()
SWITCH=0 SEVERAL=1 ONE_QUEUE=2 BIG=3 REFUSING=4

# nics: finds the devices' names by their addresses, because other drivers may have used these names.
nics() {
	local number
	modprobe virtio_net
	for number in 0 1 2 3 4; do
		NICS[number]=$(ip -j link show | jq -r --arg mac "52:54:00:00:00:0$number" '.[] | select(.address == $mac) | .ifname')
		[[ -n ${NICS[number]} ]] || die "virtio-net device $number does not exist"
	done
}

# lab_attach WHO: connects the node by its own card, and the bridge by another card; connects all others by a veth.
lab_attach() {
	if [[ $1 != node ]]; then
		lab_port "$1" eth0
	else
		ip link set "${NICS[CARD]}" netns "$LAB-node" name eth0
		ip link set "${NICS[SWITCH]}" netns "$LAB-net" name to-node
		# Three pairs of queues for the stack, so that one of the device's four is left for XDP.
		((CARD == ONE_QUEUE)) || nsenter --net="/run/netns/$LAB-node" ethtool -L eth0 combined 3
		ip -n "$LAB-net" link set to-node master bridge up mtu "$MTU"
		ip -n "$LAB-node" link set eth0 up mtu "$MTU"
	fi
	ip -n "$LAB-$1" link set eth0 mtu "$MTU"
	[[ $1 == node ]] || ip -n "$LAB-net" link set "to-$1" mtu "$MTU"
	lab_address "$1"
}

# card_lab_down: moves the cards back before their namespaces are removed, and ends the lab.
card_lab_down() {
	ip -n "$LAB-node" link set eth0 down
	ip -n "$LAB-node" link set eth0 netns 1 name "${NICS[CARD]}"
	ip -n "$LAB-net" link set to-node down nomaster
	ip -n "$LAB-net" link set to-node netns 1 name "${NICS[SWITCH]}"
	lab_down
}

packets() { lab_sluice status -o json | jq -r .packets; }
without() { lab_sluice status -o json | jq -r .without; }
expects() { [[ $(packets) == *"$1"* ]] || die "packets: $(packets), not '$1'; without: $(without); $(dmesg | tail -n 3)"; }

# card_lab_up CARD MTU MODE [DEVICES]: starts a lab with that card.
card_lab_up() {
	CARD=$1 MTU=$2 LAB_DEVICES=${4:-eth0}
	lab_up virtio
	BULK_SERVERS=()
	lab_guest
	lab_backends
	[[ -z ${4:-} ]] || other_kind
	# The card's counters continue from one lab to the next.
	local name sum
	for name in taken sent; do
		read -r _ sum <<<"$(queues eth0 "$name")"
		BEFORE[eth0-$name]=$sum
	done
	lab_agent --pod-devices pod --xdp "$3"
	bulk_service TCP UDP
}

# traffic WHAT: checks requests and transfers.
traffic() {
	served "$1"
	bulk_both client TCP
	bulk_both client UDP
	bulk_both guest TCP
}

# queues DEVICE taken|sent: prints the number of queues on which XDP received or sent frames, and the sum of the frames. The
# names of the counters are rx_queue_0_… or rx0_…, depending on the kernel.
queues() {
	lab_in node ethtool -S "$1" | awk -v names="^${COUNTER[$2]}:\$" '{ sub("_queue_", "", $1) } $1 ~ names && $2 > 0 { queues++; sum += $2 } END { print queues + 0, sum + 0 }'
}

declare -A COUNTER=([taken]='rx[0-9]+_xdp_redirects?' [sent]='tx[0-9]+_xdp_(tx|xmit)') BEFORE=()

# by_xdp DEVICE...: checks that XDP received packets from and sent packets by each device's driver, more than BEFORE, and that
# no frames were lost.
by_xdp() {
	local device name number sum
	counted new_xdp flow_xdp new_from_pod
	for device; do
		for name in taken sent; do
			read -r number sum <<<"$(queues "$device" "$name")"
			printf '%s: %s by XDP: %d, of %d queues\n' "$device" "$name" "$sum" "$number"
			((sum > ${BEFORE[$device-$name]:-0})) || die "$device: its driver counts no frames $name: $(lab_in node ethtool -S "$device")"
		done
	done
	[[ $(lab_in node curl -fsS http://127.0.0.1:10249/metrics | awk '/^sluice_xdp_frames_lost_total/ { sum += $2 } END { print sum + 0 }') == 0 ]] ||
		die "XDP lost frames: $(lab_in node curl -fsS http://127.0.0.1:10249/metrics | grep frames_lost)"
}

# spread: checks that XDP received packets from more than one of the card's queues.
spread() {
	local number
	read -r number _ <<<"$(queues eth0 taken)"
	((number > 1)) || die "XDP ran for one queue only: $(lab_in node ethtool -S eth0)"
}

# other_kind: connects worker-c by its own veth.
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
card_lab_up "$SEVERAL" 1500 auto
expects "eth0 $HOOKS+native"
traffic "three queues and one for XDP"
by_xdp eth0
spread
card_lab_down

card_lab_up "$ONE_QUEUE" 1500 native
expects "eth0 $HOOKS+native"
traffic "one queue, which the stack and XDP share"
by_xdp eth0
card_lab_down

card_lab_up "$REFUSING" 1500 auto
expects "eth0 $HOOKS"
[[ $(packets) != *native* ]] || die "XDP is attached: $(packets)"
[[ $(without) == *"eth0"*"no native XDP"*"ctrl_guest_offloads"* ]] || die "status has no advice: $(without)"
traffic "a host that does not switch its offloads off"
card_lab_down

if [[ -n ${SLUICE_LONG:-} ]]; then
	# If the host segments for the virtual machine and buffers are not merged, the driver accepts the program but never runs it
	# (receive_big).
	card_lab_up "$BIG" 1500 auto
	[[ $(packets) == "eth0 $HOOKS,"* ]] || die "packets: $(packets)"
	[[ $(without) == *"eth0 xdp: its driver takes an XDP program and never runs it"*"mrg_rxbuf=on"* ]] || die "status has no reason: $(without)"
	traffic "buffers that are not merged"
	counted new_remote flow_redirect
	card_lab_down
	card_lab_up "$SEVERAL" 9000 auto
	# Frames in several buffers need Linux 6.3.
	[[ $KERNEL == 6.1 ]] || expects "eth0 $HOOKS+native"
	[[ $KERNEL != 6.1 ]] || [[ $(without) == *"no native XDP"*"MTU"* ]] || die "status has no advice: $(without)"
	lab_in client ping -c 1 -W 20 -M do -s 8972 "$NODE" >/dev/null || die "no frame of 9,000 bytes arrives"
	traffic "an MTU of 9,000"
	counted new_remote flow_redirect
	card_lab_down
	card_lab_up "$SEVERAL" 1500 native eth0,eth1
	expects "eth1 $HOOKS+native"
	traffic "cards of different kinds"
	by_xdp eth0 eth1
	card_lab_down
fi
