#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With links that lose, delay, reorder and duplicate packets (netem, on all ports of the lab's bridge), data arrives complete:
# by TCP and UDP, in both families, by node port and by ClusterIP, by tc and by native XDP. An existing connection continues.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

SIZE=${SLUICE_LONG:+300000}
SIZE=${SIZE:-30000}

# impair WHAT...: applies netem with WHAT to each frame towards each host.
impair() {
	local who
	for who in client node "${LAB_WORKERS[@]}"; do tc -n "$LAB-net" qdisc replace dev "to-$who" root netem "$@" limit 10000; done
}

# through WHAT...: checks transfers under netem with WHAT.
through() {
	local who protocol
	impair "$@"
	for who in client guest; do
		for protocol in TCP UDP; do bulk_both "$who" "$protocol" "$SIZE" 2; done
	done
	printf 'netem %s: all data arrived\n' "$*"
}

through_all() {
	through loss 3%
	through delay 5ms 4ms # a random delay for each frame, so that frames overtake each other
	through delay 5ms reorder 30% 50%
	through duplicate 20%
	if [[ -n ${SLUICE_LONG:-} ]]; then
		through loss 2% delay 20ms 10ms duplicate 5%
		through corrupt 1%
	fi
	impair delay 0
}

modules sch_netem
up netem off
bulk_service TCP UDP
lab_keep 1
through_all
counted new_remote new_from_pod flow_redirect
use_native_xdp
through_all
counted new_xdp flow_xdp
lab_keep_ends
