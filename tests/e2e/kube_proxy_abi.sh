#!/bin/bash
# SEM-68: what tests/unit holds the agent's table of fields and flags to is what upstream has: the fields by Go's reflection over the
# types of both releases, the flags by the help of the real kube-proxy.
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

# Deprecated flags are not in the help, so this finds what is new, and what the corpus has too much is known by its name.
"$PARTNERS/kube-proxy" --help 2>&1 | sed -n 's/^ *\(-[a-z], \)\?--\([a-z0-9-]*\).*/\2/p' | sort >"$TMPDIR/shown"
[[ -s $TMPDIR/shown ]] || die "the real kube-proxy shows no flags"
new=$(comm -23 "$TMPDIR/shown" <(sort "$KNOWN/flags-1.37"))
[[ -z $new ]] || die "the real kube-proxy has flags that the agent does not know: $new"
hidden=$(comm -13 "$TMPDIR/shown" <(sort "$KNOWN/flags-1.37") | tr '\n' ' ')
[[ $hidden == "healthz-port metrics-port " ]] || die "the real kube-proxy does not show: $hidden"
printf 'flags shown by the real kube-proxy: %d\n' "$(wc -l <"$TMPDIR/shown")"
