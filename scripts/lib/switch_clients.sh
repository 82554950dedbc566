# SPDX-License-Identifier: Apache-2.0
# Clients that must not notice a change of the service proxy (tests/net/lib/switch_over.py), in the lab of netlab.sh. Sourced
# after it.
# shellcheck shell=bash
#
#   switch_client WHO keep|fresh|busy tcp|udp ADDRESS PORT     starts a client
#   switch_open WHEN FIRST    waits until the clients from number FIRST on have their first reply
#   switch_live WHEN          checks that no client has ended
#   switch_passes SECONDS WHEN      checks that after SECONDS; longer than any client waits for a reply
#   switch_ends               ends all clients; each must have had all its replies, from one backend

SWITCH_CLIENTS=() # "PID LOG WHAT" of each

switch_client() {
	local log=client-${#SWITCH_CLIENTS[@]}
	lab_start "$1" "$log" python3 "$SLUICE_ROOT/tests/net/lib/switch_over.py" "${@:2}" "$LAB_DIR"
	SWITCH_CLIENTS+=("$LAB_STARTED $log $*")
}

switch_open() {
	local i
	for ((i = $2; i < ${#SWITCH_CLIENTS[@]}; i++)); do
		lab_wait 60 grep -q '^open' "$LAB_DIR/client-$i" ||
			die "$1: does not begin: ${SWITCH_CLIENTS[i]}: $(cat "$LAB_DIR/client-$i")"
	done
	switch_live "$1"
}

switch_live() {
	local each pid log what
	for each in "${SWITCH_CLIENTS[@]}"; do
		read -r pid log what <<<"$each"
		kill -0 "$pid" 2>/dev/null || die "$1: $what: $(cat "$LAB_DIR/$log")"
	done
	printf '%s: %d clients go on\n' "$1" "${#SWITCH_CLIENTS[@]}"
}

switch_passes() {
	sleep "$1"
	switch_live "$2"
}

switch_ends() {
	local each pid log what
	touch "$LAB_DIR/stop"
	for each in "${SWITCH_CLIENTS[@]}"; do
		read -r pid log what <<<"$each"
		wait "$pid" || die "$what: $(cat "$LAB_DIR/$log")"
		tail -n 1 "$LAB_DIR/$log" >>"$LAB_DIR/answers"
	done
	printf 'clients: %d, none of which lost anything; answers: %s\n' "${#SWITCH_CLIENTS[@]}" \
		"$(awk '{ sum += $1 } END { print sum }' "$LAB_DIR/answers")"
	SWITCH_CLIENTS=()
	rm "$LAB_DIR/stop" "$LAB_DIR/answers"
}
