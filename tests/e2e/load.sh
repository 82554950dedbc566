#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# REL-37: thousands of services are created and deleted, and slices of a big service change a hundred times a second. The
# agent keeps up, leaves nothing behind in its maps, its memory use returns to normal, and a pod's requests succeed.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

# 10,000 services and 100,000 endpoints with --long.
SERVICES=${SLUICE_LONG:+10000} SERVICES=${SERVICES:-400}
SLICES=${SLUICE_LONG:+1000} SLICES=${SLICES:-50}
SECONDS_OF_UPDATES=${SLUICE_LONG:+60} SECONDS_OF_UPDATES=${SECONDS_OF_UPDATES:-5}
ROUNDS=6
AGENT_SIZES=(--max-frontends 65536 --max-services 65536 --max-backends 262144 --max-slots 1048576 --max-flows 16384
	--max-unassured 16384)

# resident: the agent's resident memory in KiB.
resident() { awk '/^VmRSS:/ {print $2}' "/proc/$LAB_AGENT/status"; }
frontends() { lab_fill | jq .lb_frontends; }
# ports: the port numbers of the big service's backends.
ports() { lab_sluice backends default/big -o json | jq -c '[.[] | select(.inClusterSet).port] | unique'; }

load_up load

before=$(frontends)
memory=()
for ((round = 1; round <= ROUNDS; round++)); do
	made=$(load create "$SERVICES")
	WITHIN=10 becomes "REL-37: round $round, $made services, two families each" $((2 * SERVICES)) programmed
	gone=$(load delete)
	((gone == SERVICES)) || die "$gone of $SERVICES services were deleted"
	WITHIN=10 becomes "REL-37: round $round, after their end" 0 programmed
	becomes "frontends, as before" "$before" frontends
	memory+=("$(resident)")
done
printf 'resident after each round: %s KiB\n' "${memory[*]}"
# The allocator's heap grows at first, and less each time; a leak would cost the same in each round.
grown=$((memory[ROUNDS - 1] - memory[ROUNDS - 2]))
((grown * 33 <= memory[ROUNDS - 2])) || die "REL-37: the agent's memory still grows from round to round: ${memory[*]} KiB"
((memory[ROUNDS - 1] * 10 <= memory[0] * 13)) || die "REL-37: the agent's memory has grown by more than three tenths: ${memory[*]} KiB"

kube slices big "$SLICES" 100
WITHIN=20 becomes "endpoints of the big service" $((SLICES * 100)) count
made=$(load update "$SLICES" "$SECONDS_OF_UPDATES")
WITHIN=5 becomes "REL-37: $made changes of its slices later, the last of them" "[8080]" ports
becomes "its endpoints" $((SLICES * 100)) count
lab_traffic_ends
