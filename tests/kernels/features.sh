#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agent reports which optional features this kernel lacks, and what it uses instead. A list that differs from the expected
# one means a new kernel, or a probe that no longer works. The agent serves with these features, by clsact or TCX, and by
# native XDP.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

ABSENT_6_1="tcx absent: clsact
fib-mark absent: not asked
ct-lookup absent: not asked
socket-destroy absent: sock_diag
skb-sums absent: checksum helpers"
# 6.12 and every later one.
ABSENT="ct-lookup absent: not asked"

# absent: prints the missing features according to status, one per line.
absent() { lab_sluice status -o json | jq -r '.without' | sed 's/; /\n/g'; }

# expected with|without: prints the list for this kernel, with conntrack's module or without (ct-lookup needs a kfunc of it).
expected() {
	case $(uname -r) in
	6.1.*) printf '%s\n' "$ABSENT_6_1" ;;
	*) printf '%s\n' "$ABSENT" ;;
	esac | if [[ $1 == with ]]; then grep -v '^ct-lookup' || true; else cat; fi
}

# reports with|without HOOKS: checks the list of missing features and the hooks.
reports() {
	[[ $(absent) == "$(expected "$1")" ]] || die "$1 conntrack: status reports $(absent), not $(expected "$1")"
	[[ $(lab_sluice status -o json | jq -r .packets) == "eth0 $2"* ]] || die "packets: $(lab_sluice status -o json | jq -r .packets)"
}

! grep -q '^nf_conntrack ' /proc/modules || modprobe -r nf_conntrack || die "nf_conntrack is loaded, and cannot be unloaded"
up features off
reports without "$HOOKS"
served "without conntrack"
modprobe nf_conntrack
lab_stop "$LAB_AGENT"
lab_offload off
lab_agent --pod-devices pod --xdp native
reports with "$HOOKS+native"
served "with conntrack, by native XDP"
counted new_remote new_from_pod flow_redirect new_xdp flow_xdp socket_translated
