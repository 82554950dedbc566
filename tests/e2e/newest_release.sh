#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The newest Kubernetes release (1.37): the same objects lead to the same replies as its own kube-proxy's, with its API
# server and controllers (differential); the rules of its three modes are compared with ours (check_against); and from it to
# Sluice and back (switch_over).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

[[ -n ${NEWEST_PARTNERS:-} ]] || NEWEST_PARTNERS=$("$SLUICE_ROOT/scripts/lib/partners" --newest)
export PARTNERS=$NEWEST_PARTNERS
for each in differential check_against switch_over; do
	printf '%s with %s\n' "$each" "$("$PARTNERS/kube-proxy" --version)"
	SLUICE_LONG="" bash "$SLUICE_ROOT/tests/e2e/$each.sh"
done
