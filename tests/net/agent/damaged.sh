#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-70: entries that another program removed from the tables, changed or added are repaired at the agent's next check:
# every hour, and on SIGHUP. Requests show that the programs use the damaged entries. REL-41: what another version pinned.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

# key ADDRESS: the key of its frontend, in bpftool's syntax.
key() {
	bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_frontends |
		jq -r --argjson address "$1" '.[] | select(.formatted.key.address[12:] == $address) | .key | join(" ")' | sed -n 1p
}
# repaired TABLE: how many of its entries were repaired.
repaired() {
	lab_in node curl -fsS -m 2 http://127.0.0.1:10249/metrics |
		sed -n "s/^sluice_entries_repaired_total{table=\"$1\"} //p"
}
has_repaired() { [[ $(repaired "$1") == "$2" ]]; }
# as_before: whether the maps are as they were; prints the difference.
as_before() { diff <(lab_maps) "$LAB_DIR/maps"; }
asked() { lab_ask pod tcp 10.96.0.80 80; }

lab_up damaged
lab_backends
lab_agent
lab_maps >"$LAB_DIR/maps"
asked || die "the service is not served"
read -ra bytes <<<"$(key '[10,96,0,80]')"
value=$(bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_frontends | jq -r '.[0].value | join(" ")')
# Delete the frontend, and add one that no service has.
bpftool map delete pinned "$LAB_PINS"/v*/maps/lb_frontends key "${bytes[@]}"
other=("${bytes[@]}")
other[12]=0x63
# shellcheck disable=SC2086  # bytes
bpftool map update pinned "$LAB_PINS"/v*/maps/lb_frontends key "${other[@]}" value $value
! asked || die "without its frontend the service is served"
! as_before >"$LAB_DIR/difference" || die "the damage does not show"
kill -HUP "$LAB_AGENT"
lab_wait 5 asked || die "the service is not served again"
lab_wait 5 as_before || die "the maps are not as they were: $(as_before)"
lab_wait 5 has_repaired lb_frontends 2 || die "two entries were damaged, and '$(repaired lb_frontends)' were put right"

# Overwrite the service's row, so that it has no endpoints.
read -ra number < <(bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_frontends |
	jq -r '[.[] | select(.formatted.key.address[12:] == [10, 96, 0, 80])][0].value[:4] | join(" ")')
read -ra row < <(bpftool -j map lookup pinned "$LAB_PINS"/v*/maps/lb_services key "${number[@]}" | jq -r '.value | join(" ")')
bpftool map update pinned "$LAB_PINS"/v*/maps/lb_services key "${number[@]}" \
	value 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "${row[@]:16}"
! asked || die "with an empty row the service is served"
kill -HUP "$LAB_AGENT"
lab_wait 5 asked || die "the service is not served again"
lab_wait 5 has_repaired lb_services 1 || die "one row was damaged, and '$(repaired lb_services)' were put right"
lab_wait 5 as_before || die "the maps are not as they were: $(as_before)"
printf 'SEM-70: a service whose endpoints were taken away: put right on SIGHUP\n'
printf 'SEM-70: a frontend that was taken away and one that was added: put right on SIGHUP\n'

# An earlier version of the same layout pinned its scratch memory, which may have another size.
lab_stop "$LAB_AGENT" || die "the agent did not end well"
rm -f "$LAB_PINS"/v*/maps/lb_scratch
bpftool map create "$(echo "$LAB_PINS"/v*/maps)/lb_scratch" type percpu_array key 4 value 816 entries 1 name lb_scratch
lab_agent
[[ ! -e $(echo "$LAB_PINS"/v*/maps)/lb_scratch ]] || die "lb_scratch is pinned, which keeps other versions from starting"
asked || die "the service is not served by the next agent"
printf 'REL-41: scratch memory of another size keeps no agent from starting\n'
