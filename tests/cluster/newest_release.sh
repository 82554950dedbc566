#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The newest Kubernetes release (1.37), from its API server to its kubelets and its kube-proxy: from kubeadm's DaemonSet to
# Sluice and back, in two modes (kubeadm). The long form runs every scenario of this level; SLUICE_SCENARIOS names others.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

[[ -n ${NEWEST_PARTNERS:-} ]] || NEWEST_PARTNERS=$("$SLUICE_ROOT/scripts/lib/partners" --newest --nodes)
export PARTNERS=$NEWEST_PARTNERS
ALL=${SLUICE_LONG:+beside chart instead kubeadm}
for each in ${SLUICE_SCENARIOS:-${ALL:-kubeadm}}; do
	printf '%s with %s\n' "$each" "$("$PARTNERS/kubelet" --version)"
	bash "$SLUICE_ROOT/tests/cluster/$each.sh"
done
