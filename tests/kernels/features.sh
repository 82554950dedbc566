#!/bin/bash
# The agent's report about this kernel: which of the optional features are missing, and what it uses instead; another list
# than the expected one means a new kernel, or a probe that no longer works. Served with these features, by clsact or TCX,
# and by native XDP.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

ABSENT_6_1="tcx absent: clsact
fib-mark absent: not asked
ct-lookup absent: not asked
socket-destroy absent: sock_diag
skb-sums absent: checksum helpers"
ABSENT_6_12="ct-lookup absent: not asked"

# absent: the missing features according to status, one per line.
absent() { lab_sluice status -o json | jq -r '.without' | sed 's/; /\n/g'; }

# expected: the list for this kernel, with conntrack's module or without (ct-lookup needs a kfunc of the module).
expected() {
	case $(uname -r) in
	6.1.*) printf '%s\n' "$ABSENT_6_1" ;;
	6.12.*) printf '%s\n' "$ABSENT_6_12" ;;
	*) die "has no list for Linux $(uname -r); add what status says there to $0, once it is understood." ;;
	esac | if [[ $1 == with ]]; then grep -v '^ct-lookup' || true; else cat; fi
}

# says WITH HOW: checks both lists and the hooks.
says() {
	[[ $(absent) == "$(expected "$1")" ]] || die "$1 conntrack: status says $(absent), and not $(expected "$1")"
	[[ $(lab_sluice status -o json | jq -r .packets) == "eth0 $2"* ]] || die "packets: $(lab_sluice status -o json | jq -r .packets)"
}

! grep -q '^nf_conntrack ' /proc/modules || modprobe -r nf_conntrack || die "nf_conntrack is loaded, and cannot be taken away"
up features off
says without "$HOOKS"
served "without conntrack"
modprobe nf_conntrack
lab_stop "$LAB_AGENT"
lab_offload off
lab_agent --pod-devices pod --xdp native
says with "$HOOKS+native"
served "with conntrack, by native XDP"
counted new_remote new_from_pod flow_redirect new_xdp flow_xdp socket_translated
