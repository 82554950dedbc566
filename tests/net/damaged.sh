#!/bin/bash
# SEM-70: entries that somebody else took from the tables, changed or added are put right when the agent looks: every hour, and
# on SIGHUP. Requests show that it is the programs that see the difference.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/scenario.sh"

# key ADDRESS: of its frontend, as bpftool takes it.
key() {
	bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_frontends |
		jq -r --argjson address "$1" '.[] | select(.formatted.key.address[12:] == $address) | .key | join(" ")' | head -n 1
}
repaired() {
	lab_in node curl -fsS -m 2 http://127.0.0.1:10249/metrics |
		sed -n 's/^sluice_entries_repaired_total{table="lb_frontends"} //p'
}
asked() { lab_ask pod tcp 10.96.0.80 80; }

lab_up damaged
lab_backends
lab_agent
lab_maps >"$LAB_DIR/maps"
asked || die "the service is not served"
read -ra bytes <<<"$(key '[10,96,0,80]')"
value=$(bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_frontends | jq -r '.[0].value | join(" ")')
# Of one address and port, and of one that nobody planned.
bpftool map delete pinned "$LAB_PINS"/v*/maps/lb_frontends key "${bytes[@]}"
other=("${bytes[@]}")
other[12]=0x63
# shellcheck disable=SC2086  # bytes
bpftool map update pinned "$LAB_PINS"/v*/maps/lb_frontends key "${other[@]}" value $value
! asked || die "without its frontend the service is served"
! diff <(lab_maps) "$LAB_DIR/maps" >"$LAB_DIR/difference" || die "the damage does not show"
kill -HUP "$LAB_AGENT"
lab_wait 5 asked || die "the service is not served again"
diff <(lab_maps) "$LAB_DIR/maps" || die "the maps are not as they were"
[[ $(repaired) == 2 ]] || die "two entries were damaged, and '$(repaired)' were put right"
printf 'SEM-70: a frontend that was taken away and one that was added: put right on SIGHUP\n'
