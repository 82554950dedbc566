#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-68: checks the fields and flags against which tests/unit tests the agent's table: they must be upstream's. The fields
# come from Go's reflection over the types of both releases, the flags from the help text of the real kube-proxy.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

KNOWN=$SLUICE_ROOT/tests/corpus/kube_proxy
PARTNERS=${PARTNERS:-$("$SLUICE_ROOT/scripts/lib/partners")}
FIELDS=${FIELDS:-$("$SLUICE_ROOT/scripts/lib/kube-proxy-fields")}

for release in 1.36 1.37; do
	"$FIELDS/fields-$release" | diff "$KNOWN/fields-$release" - ||
		die "kube-proxy's type of $release has other fields (>) than tests/corpus/kube_proxy/fields-$release says (<)"
	printf 'fields of %s: %d\n' "$release" "$("$FIELDS/fields-$release" | wc -l)"
done

# The help text omits deprecated flags.
"$PARTNERS/kube-proxy" --help 2>&1 | sed -n 's/^ *\(-[a-z], \)\?--\([a-z0-9-]*\).*/\2/p' | sort >"$TMPDIR/shown"
release=$("$PARTNERS/kube-proxy" --version | sed -n 's/^Kubernetes v\([0-9]*\.[0-9]*\).*/\1/p')
grep -v '^healthz-port$\|^metrics-port$' "$KNOWN/flags-$release" | diff - "$TMPDIR/shown" ||
	die "the real kube-proxy has other flags (>) than tests/corpus/kube_proxy/flags-$release says (<)"
printf 'flags of %s: %d\n' "$release" "$(wc -l <"$TMPDIR/shown")"
