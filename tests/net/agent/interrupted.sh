#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo and the test command, interrupted at ten points: they leave the machine as it was before. Killed at two, they
# leave no process, namespace, pin or program, and the next start removes the rest.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/common.sh"
# shellcheck source=scripts/lib/sandbox.sh
source "$SLUICE_ROOT/scripts/lib/sandbox.sh"

# Run in a sandbox, because concurrent tests make and remove such things, too.
if [[ -z ${SLUICE_ALONE:-} ]]; then
	SLUICE_ALONE=1 sandbox bash "${BASH_SOURCE[0]}"
	exit
fi

# state: everything that could be left behind, except loaded programs. Processes are counted by their cgroup, which cannot be
# removed while one lives.
state() {
	ip netns list
	find "$(cgroup_root)" -mindepth 1 -type d
	find /sys/fs/bpf -mindepth 1
	find "${TMPDIR:-/tmp}" -mindepth 1 -maxdepth 1 -name 'sluice*' -o -name 'demo-*'
	ip -o link show | cut -d: -f2
	[[ ! -d /run/netns ]] || find /run/netns -mindepth 1
}

# programs: ids of our loaded programs, also those of tests beside this one.
programs() { bpftool -j prog show | jq -r '.[] | select(.name // "" | startswith("lb_")) | .id' | sort; }

# held: ids of the programs that processes of this sandbox hold. It has a process namespace of its own, so /proc has no others.
held() { sed -n 's/^prog_id:[[:space:]]*//p' /proc/[0-9]*/fdinfo/* 2>/dev/null | sort -u || true; }

# gone FILE: whether none of the programs in FILE is loaded any more.
gone() { [[ -z $(comm -12 "$1" <(programs)) ]]; }

# living: the cgroups of sandboxes that have processes.
living() { grep -l 'populated 1' "$(cgroup_root)"/sluice-sandbox.*/cgroup.events 2>/dev/null || true; }

# interrupt SIGNAL SECONDS COMMAND...: interrupts COMMAND after SECONDS, and checks that it leaves nothing behind.
interrupt() {
	local signal=$1 seconds=$2 pid code=0 try
	shift 2
	state >"$WORK/before"
	env --default-signal=INT "$@" >"$WORK/output" 2>&1 </dev/null &
	pid=$!
	sleep "$seconds"
	comm -12 <(held) <(programs) >"$WORK/programs.during"
	HELD=$((HELD + $(wc -l <"$WORK/programs.during")))
	kill -0 "$pid" || { cat "$WORK/output" && die "'$*' had ended after $seconds s already"; }
	kill -"$signal" "$pid"
	wait "$pid" || code=$?
	((code > 128)) || die "'$*' ended with exit code $code after SIG$signal, as if nothing had happened"
	if [[ $signal == KILL ]]; then
		for try in 1 2 4; do
			[[ -n $(living) ]] || break
			sleep "$try"
		done
		[[ -z $(living) ]] || die "'$*' left processes, killed after $seconds s"
		sandbox true
	fi
	state >"$WORK/after"
	diff "$WORK/before" "$WORK/after" || die "'$*' left this behind, interrupted by SIG$signal after $seconds s"
	# The kernel ends network namespaces one after another, which takes minutes if tests beside this one made hundreds.
	for try in 1 2 4 8 15 30 60 60; do
		! gone "$WORK/programs.during" || break
		sleep "$try"
	done
	gone "$WORK/programs.during" || {
		comm -12 "$WORK/programs.during" <(programs)
		bpftool link show
		die "'$*' left programs loaded, interrupted by SIG$signal after $seconds s: above, then all links"
	}
	printf "%s SIG%s after %s s: nothing left\n" "$*" "$signal" "$seconds"
}

WORK=$(mktemp -d) HELD=0
trap 'rm -rf "$WORK"' EXIT
for point in 'INT 0.2' 'TERM 1.5' 'INT 4' 'TERM 5' 'INT 6' 'HUP 8' 'KILL 5'; do
	# shellcheck disable=SC2086  # two words
	interrupt $point "$SLUICE_ROOT/scripts/demo"
done
for point in 'TERM 0.2' 'INT 1' 'TERM 3' 'INT 4' 'KILL 3'; do
	# shellcheck disable=SC2086
	interrupt $point "$SLUICE_ROOT/scripts/test" prog
done
((HELD > 0)) || die "no run held a program when it was interrupted"
