#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PREEMPT_RT, where one task may preempt another within a program (REL-120): packets of several tasks on one CPU are not mixed
# up, each is counted, and the agent serves. Prints whether this kernel has the lock that older ones have, with which tasks do
# not interleave: then the experiment proves nothing. Status and check name the kind (REL-122).
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

[[ $(uname -v) == *PREEMPT_RT* ]] || die "Linux $(uname -r) is not built with PREEMPT_RT"
config=/usr/lib/modules/$(uname -r)/config # scripts/lib/kernels puts it there
grep -E '^(# )?CONFIG_PREEMPT_RT(_NEEDS_BH_LOCK)?[ =]' "$config" || die "finds no configuration of Linux $(uname -r)"
if grep -q '^# CONFIG_PREEMPT_RT_NEEDS_BH_LOCK is not set' "$config"; then
	say "tasks interleave on a CPU with bottom halves disabled"
	kind=interleaved
else
	kind=serialized
	say "bottom halves have a lock: this kernel proves nothing"
fi
"$BUILD_ROOT/tests/test_prog" "REL-120 *"
up realtime off
served "on PREEMPT_RT, by tc"
[[ $(lab_sluice status -o json | jq -r .kernel.preemption) == "$kind" ]] || die "status says: $(lab_sluice status | sed -n '/^Kernel/p')"
lab_in node "$SLUICE" check --devices eth0 -o json --manifests "$LAB_MANIFESTS" --pins "$LAB_PINS" >"$LAB_DIR/check" || true
found=$(jq -r '.findings[] | select(.what == "preemption").found' "$LAB_DIR/check")
[[ $found == PREEMPT_RT* ]] || die "check says: $found"
say "$found"
lab_stop "$LAB_AGENT"
lab_offload off
lab_agent --pod-devices pod --xdp native
served "on PREEMPT_RT, by native XDP"
counted new_remote new_from_pod new_xdp flow_redirect socket_translated
