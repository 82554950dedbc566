#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SIGTERM and SIGINT end the agent at once, also while it waits for something that never happens; the pinned programs and
# maps keep serving.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

# ended SIGNAL: checks that the agent ends well on it, and prints how long that took, in milliseconds. The bound allows for
# an overloaded machine.
ended() {
	local begun=$EPOCHREALTIME code=0
	kill -"$1" "$LAB_AGENT"
	lab_wait 10 gone || die "$1: the agent still runs after ten seconds: $(tail -n 3 "$LAB_DIR/agent.log")"
	wait "$LAB_AGENT" || code=$?
	((code == 0)) || die "$1: exit code $code"
	printf '%s: ended after %d ms\n' "$1" $(((${EPOCHREALTIME/[.,]/} - ${begun/[.,]/}) / 1000))
}
gone() { ! kill -0 "$LAB_AGENT" || [[ $(ps -o stat= -p "$LAB_AGENT") == Z* ]]; }

lab_up ending
lab_backends
for signal in TERM INT; do
	lab_agent --xdp off
	ended "$signal"
	grep -q 'exiting on signal' "$LAB_DIR/agent.log" || die "$signal: the log does not say that the agent ends"
	rm "$LAB_DIR/agent.log"
	lab_ask client tcp 10.0.0.10 30080 --count 10 >/dev/null || die "$signal: what is pinned does not serve on"
done

# A FIFO without a writer stands for every wait without an end.
mkfifo "$LAB_DIR/secret"
opening() { [[ $(cat "/proc/$LAB_AGENT/wchan") =~ partner|fifo ]]; }
lab_launch --xdp off --cluster-secret "$LAB_DIR/secret"
lab_wait 10 opening || die "the agent does not wait for the file"
ended TERM
lab_ask client tcp 10.0.0.10 30080 --count 10 >/dev/null || die "what is pinned does not serve on"
