#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-132, REL-135: user nobody holds 200,000 file locks, which /proc/locks lists: `alive` and `status` answer as fast as before,
# with the agent's pid. Without rights, commands say that they may not look, and never that nothing is there.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

LOCKS=200000

# says_not WORDS COMMAND...: without rights, COMMAND fails and says WORDS.
says_not() {
	local code=0 words=$1
	shift
	lab_in node setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all "$SLUICE" "$@" --pins "$LAB_PINS" >"$LAB_DIR/said" 2>&1 || code=$?
	((code == 1)) && grep -q "$words" "$LAB_DIR/said" || { cat "$LAB_DIR/said" && die "$*: ended with $code"; }
	! grep -qi "nothing\|no agent\|no Sluice" "$LAB_DIR/said" || die "$*: $(cat "$LAB_DIR/said")"
	printf '%s: %s\n' "$*" "$(cat "$LAB_DIR/said")"
}

lab_up locks
lab_agent --xdp off
cp "$SLUICE" "$LAB_DIR/sluice" && chmod 755 "$LAB_DIR" "$LAB_DIR/sluice"
SLUICE=$LAB_DIR/sluice
says_not "CAP_NET_ADMIN" cleanup --dry-run
says_not "CAP_NET_ADMIN" cleanup --kube-proxy --dry-run
says_not "CAP_NET_ADMIN" drain
for command in alive status services "backends default/web" flows; do
	# shellcheck disable=SC2086  # a command and its argument
	says_not "Permission denied" $command
done

mkdir "$LAB_DIR/locked"
# In many files: the kernel walks all locks of a file for a new one.
lab_start node locks.log python3 -c '
import fcntl, os, sys, time
files = [open(f"{sys.argv[1]}/{number}", "w") for number in range(200)]
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for at in range(int(sys.argv[2])):
    fcntl.lockf(files[at % len(files)], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * (at // len(files)))
print("held", flush=True)
time.sleep(600)' "$LAB_DIR/locked" "$LOCKS"
lab_wait 300 grep -qs held "$LAB_DIR/locks.log" || die "cannot take the locks"
for command in alive status; do
	before=$(date +%s%N)
	lab_sluice "$command" >/dev/null || die "$command fails"
	took=$((($(date +%s%N) - before) / 1000000))
	((took < 2000)) || die "$command takes $took ms with $LOCKS locks"
	printf '%s with %d locks of others: %d ms\n' "$command" "$LOCKS" "$took"
done
[[ $(lab_sluice status -o json | jq .agent.pid) == "$LAB_AGENT" ]] || die "status does not have the agent's pid: $(lab_sluice status -o json | jq .agent)"
lab_stop "$LAB_AGENT"
[[ $(lab_sluice status -o json | jq .agent.running) == false ]] || die "status says that an agent runs"
