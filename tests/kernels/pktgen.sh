#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel's packet generator sends a flood of small datagrams from random ports to a node port, in both families, by tc and
# by native XDP. The agent stays responsive, existing connections continue, no new request fails, and everything is served
# afterwards.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

COUNT=${SLUICE_LONG:+2000000}
COUNT=${COUNT:-40000}
PROC=/proc/net/pktgen

# generator LINE...: writes commands to pktgen's device.
generator() {
	local line
	for line; do lab_in client bash -c 'echo "$1" >"$2"' generator "$line" "$PROC/eth0" || die "pktgen refuses '$line'"; done
}

# flood FAMILY OUTCOME: sends COUNT datagrams to the node port, and checks that more than a tenth are counted as OUTCOME.
flood() {
	local mac before
	mac=$(link_of node eth0 address)
	lab_in client bash -c 'echo rem_device_all >"$1/kpktgend_0" && echo "add_device eth0" >"$1/kpktgend_0"' flood "$PROC"
	generator "count $COUNT" "pkt_size 90" "delay 0" "dst_mac $mac" "udp_dst_min $BULK_PORT" "udp_dst_max $BULK_PORT" \
		"udp_src_min 1024" "udp_src_max 65000" "flag UDPSRC_RND"
	if [[ $1 == 4 ]]; then
		generator "dst $NODE" "src_min 10.0.0.100" "src_max 10.0.0.100"
	else
		generator "dst6 $NODE6" "src6 fd00:10::100" "flag UDPCSUM" # UDP over IPv6 requires a checksum
	fi
	before=$(outcome "$2")
	lab_in client bash -c 'echo start >"$1/pgctrl"' flood "$PROC" &
	local flooding=$!
	while kill -0 "$flooding" 2>/dev/null; do
		lab_in node curl -fsS -m 10 http://127.0.0.1:10256/healthz >/dev/null || die "the agent is not healthy under the flood"
	done
	wait "$flooding" || die "pktgen failed"
	lab_in client grep -A1 '^Result' "$PROC/eth0"
	(($(outcome "$2") - before > COUNT / 10)) || die "too few datagrams reached a backend: $(lab_sluice status -o json | jq -c .outcomes)"
}

modules pktgen
up pktgen off
bulk_service TCP UDP
lab_keep 1
lab_traffic pod "$WEB" 80
flood 4 new_remote
flood 6 new_remote
use_native_xdp
flood 4 new_xdp
flood 6 new_xdp
lab_traffic_ends
lab_keep_ends
kill -0 "$LAB_AGENT" || die "the agent has ended"
served "after the flood"
bulk_both client UDP 20000
