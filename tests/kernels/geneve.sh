#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node whose uplink is a Geneve device (frames in UDP, with Ethernet headers) is served like any other.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# lab_attach WHO: connects WHO to the bridge by its own tunnel. The tunnel's packets use another network.
lab_attach() {
	local number
	number=$(lab_number "$1")
	ip -n "$LAB-net" link add "under-$1" type veth peer name under0 netns "$LAB-$1"
	ip -n "$LAB-net" address add "192.168.$number.1/30" dev "under-$1"
	ip -n "$LAB-net" link set "under-$1" up mtu 1600
	ip -n "$LAB-$1" address add "192.168.$number.2/30" dev under0
	ip -n "$LAB-$1" link set under0 up mtu 1600
	ip -n "$LAB-net" link add "to-$1" type geneve id "$number" remote "192.168.$number.2"
	ip -n "$LAB-net" link set "to-$1" master bridge up mtu 1500
	ip -n "$LAB-$1" link add eth0 type geneve id "$number" remote "192.168.$number.1"
	ip -n "$LAB-$1" link set eth0 up mtu 1500
	lab_address "$1"
}

modules geneve
up geneve off
bulk_service TCP UDP
served "Geneve as uplink"
bulk_both client TCP
bulk_both guest UDP
counted new_remote new_from_pod flow_redirect socket_translated
