#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-37: thousands of services are added and removed as manifests, as fast as files can be written. The agent keeps up,
# leaves nothing behind in its maps, and requests to another service succeed. 10,000 services with --long.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

SERVICES=${SLUICE_LONG:+10000} SERVICES=${SERVICES:-1000}
ROUNDS=3

frontends() { lab_fill | jq .lb_frontends; }
has() { [[ $(frontends) == "$1" ]]; }

lab_up many
lab_backends
lab_agent --max-frontends 65536 --max-services 65536 --max-backends 65536
before=$(frontends)
lab_start pod asked python3 "$SLUICE_ROOT/scripts/lib/ask.py" tcp 10.96.0.80 80 --seconds 3600 --pause 0.01 --until-failure
asker=$LAB_STARTED
for ((round = 1; round <= ROUNDS; round++)); do
	begin=$EPOCHREALTIME
	lab_in node python3 "$SLUICE_ROOT/tests/net/lib/services.py" many "$SERVICES" 2 "$LAB_MANIFESTS"
	lab_wait 120 has $((before + SERVICES)) || die "round $round: $(frontends) frontends instead of $((before + SERVICES))"
	made=$EPOCHREALTIME
	find "$LAB_MANIFESTS" -name 'many-*' -delete
	lab_wait 120 has "$before" || die "round $round: $(frontends) frontends instead of the $before of before"
	printf 'REL-37: round %d: %d services made in %d ms and gone in %d ms\n' "$round" "$SERVICES" \
		$(((${made/./} - ${begin/./}) / 1000)) $(((${EPOCHREALTIME/./} - ${made/./}) / 1000))
done
[[ $(lab_sluice services -o json | jq '[.[] | select(.service | startswith("default/many-"))] | length') == 0 ]] ||
	die "services stay that are gone"
lab_stop "$asker" TERM || { cat "$LAB_DIR/asked" && die "requests failed meanwhile"; }
printf 'requests, none of which failed: %d\n' "$(awk '{ sum += $1 } END { print sum }' "$LAB_DIR/asked")"
