#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The disruption gate: TCP and UDP flows that never pause, over every path, while the agent is killed, stopped, upgraded in
# place, killed while it starts, and given larger tables (REL-38, REL-69, REL-83, SEM-71, SEM-78, SEM-81): no flow breaks,
# moves to another backend or is opened a second time, no datagram is lost, and no unexpected outcome is counted. The same
# holds for the node's traffic without any service: a pod's outgoing traffic, a login on the node, a probe of a pod.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/net/lib/disruption.sh
source "$SLUICE_ROOT/tests/net/lib/disruption.sh"

SEED=$(seed 11) RESTARTS=${SLUICE_LONG:+1000}
RESTARTS=${SLUICE_RESTARTS:-${RESTARTS:-40}} # a start takes a second, most of it the verifier's
RANDOM=$((SEED & 32767))
say "seed $SEED, $RESTARTS restarts"

# The differences between the starts: constants of all programs, and without tcx also the way they are attached.
VARIANTS=('' --source-ports=2000-29999 --without=fib-source --without=csum-ipv6 --without=ct-lookup
	--without=socket-destroy --without=tcx --without=tcx,fib-source,fib-mark,csum-ipv6,ct-lookup,socket-destroy,skb-sums)
# The outcomes that are counted if every path is used.
USED=(flow_stack flow_redirect flow_xdp socket_kept)

# ---- Restarts. ----

VARIANT='' KINDS=(killed ended upgraded 'killed while starting' 'killed, and given larger tables' 'killed while starting with larger tables')
SIZE=65536 # of the smallest table, as it is made without options
LARGER=()
declare -A DONE

larger() {
	SIZE=$((SIZE + 1))
	LARGER=(--max-frontends "$SIZE" --max-services "$SIZE" --max-backends "$((4 * SIZE))" --max-slots "$((16 * SIZE))")
}

# shellcheck disable=SC2086  # no option or one
start() { lab_agent --xdp native --pod-devices pod $VARIANT ${LARGER[@]+"${LARGER[@]}"} >"$LAB_DIR/start" || { cat "$LAB_DIR/start" && die "$1: does not start"; }; }

another_variant() { VARIANT=${VARIANTS[RANDOM % ${#VARIANTS[@]}]}; }

restart() { # KIND TITLE
	local signal=KILL
	[[ $1 != ended && $1 != upgraded ]] || signal=TERM
	lab_stop "$LAB_AGENT" "$signal" || [[ $signal == KILL ]] || wrong "$2: the agent did not end well"
	go_on "$2, without an agent"
	[[ $1 != upgraded && $1 != *starting* ]] || another_variant
	[[ $1 != *larger* ]] || larger
	if [[ $1 == *starting* ]]; then
		# shellcheck disable=SC2086
		lab_launch --xdp native --pod-devices pod $VARIANT ${LARGER[@]+"${LARGER[@]}"}
		sleep "$((RANDOM % 2)).$((RANDOM % 10))"
		lab_stop "$LAB_AGENT" KILL || true
		go_on "$2, after that"
	fi
	start "$2"
	go_on "$2, started again"
}

main() {
	local number kind who code=0
	disruption_lab disruption
	start "the first start"
	[[ $(lab_sluice status -o json | jq -r .packets) == "eth0 tcx+native, eth1 tcx+native (tc sends), 2 pods tcx" ]] ||
		die "not the paths that shall be tried: $(lab_sluice status -o json | jq -r .packets)"
	MAPS=$(dump)
	talk
	go_on "before the first restart"
	OUTCOMES=$(outcomes) FLOWS=$(flows)
	say "$(cat "$LAB_DIR"/talk-* | grep -c '^flow ') flows, $(wc -l <<<"$FLOWS") of them of packets"

	for ((number = 1; number <= RESTARTS; number++)); do
		kind=${KINDS[RANDOM % ${#KINDS[@]}]}
		((number < RESTARTS)) || VARIANT='' kind=ended
		DONE[$kind]=$((${DONE[$kind]:-0} + 1))
		restart "$kind" "restart $number ($kind${VARIANT:+, before with $VARIANT})"
		[[ -z $(unexpected) ]] || wrong "restart $number ($kind): unexpected outcomes"
	done
	for kind in "${!DONE[@]}"; do say "${DONE[$kind]} times $kind"; done

	equal_flows || wrong "other flow entries than before, above"
	lab_wait 15 eval '[[ $(dump) == "$MAPS" ]]' || { diff <(printf '%s\n' "$MAPS") <(dump) ||
		wrong "other maps than of a clean start, above"; }
	moved
	for kind in "${USED[@]}"; do prints "^$kind " moved || wrong "no packet met $kind"; done
	for who in "${TALKERS[@]}"; do lab_stop "${TALKER[$who]}" || code=1; done
	sed -n 's/^talked //p' "$LAB_DIR"/talk-* | sort
	((code == 0)) || wrong "broken flows"
	say "no flow broken"
}

main "$@"
