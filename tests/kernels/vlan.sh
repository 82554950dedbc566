#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node whose uplink is a VLAN device, also one inside another VLAN (802.1Q in 802.1ad), is served on the VLAN device. Frames
# on the device below it (where the tag is not in the packet) are ignored, whether or not that device is named too.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# The outer device has room for its own tag only: the kernel subtracts the inner tag from the inner device's MTU.
lab_attach() {
	lab_port "$1" below
	if [[ $STACKED == yes ]]; then
		ip -n "$LAB-$1" link add link below name outer up type vlan protocol 802.1ad id 200
		ip -n "$LAB-$1" link add link outer name eth0 up mtu 1496 type vlan id 100
	else
		ip -n "$LAB-$1" link add link below name eth0 up type vlan id 100
	fi
	lab_address "$1"
}

# on DEVICES: runs all checks with these devices.
on() {
	LAB_DEVICES=$1
	up vlan off
	bulk_service TCP
	served "VLAN in VLAN: $STACKED; devices $1"
	bulk client TCP "$NODE" "$BULK_PORT"
	bulk guest TCP "$BULK" 7000
	counted new_remote new_from_pod flow_redirect socket_translated
	lab_down
}

modules 8021q
STACKED=no on below,eth0
STACKED=yes on eth0
