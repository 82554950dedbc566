# SPDX-License-Identifier: Apache-2.0
# Runs a command so that nothing of it can outlive it: in its own process, mount, network and cgroup namespaces, with its own
# bpffs, /run/netns and TMPDIR, and in a cgroup that it sees as the root. Sourced after common.sh.
# shellcheck shell=bash

SANDBOX_PID='' SANDBOX_CGROUP='' SANDBOX_TMP=''

# cgroup_root: the mount point of cgroup v2, alone or beside v1.
cgroup_root() {
	local found
	found=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
	[[ -n $found ]] || die "finds no cgroup v2; mount it: mount -t cgroup2 none /sys/fs/cgroup (or below it)."
	printf '%s\n' "$found"
}

# memory_v1: the mount point of version 1's memory controller; empty if it has none.
memory_v1() { awk '$3 == "cgroup" && (","$4",") ~ /,memory,/ { print $2; exit }' /proc/self/mounts; }

# memory_cgroup: a directory in which a memory cgroup can be made, and the name of its limit: version 1, or 2 with the
# controller enabled.
memory_cgroup() {
	local root
	root=$(memory_v1)
	if [[ -n $root ]]; then
		printf '%s memory.limit_in_bytes\n' "$root$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)"
	else
		root=$(cgroup_root)
		grep -q memory "$root/cgroup.subtree_control" || echo +memory >"$root/cgroup.subtree_control"
		printf '%s memory.max\n' "$root"
	fi
}

# sandbox_controllers: makes it possible to limit memory in the sandbox by version 2, whose cgroups pass controllers on only while
# they have no process of their own: waits until the sandbox's first process is in a cgroup below (see sandbox-init), and takes
# the last one out.
sandbox_controllers() {
	local root own try
	root=$(cgroup_root)
	own=$root$(sed -n 's/^0:://p' /proc/self/cgroup)
	grep -qw memory "$root/cgroup.subtree_control" || echo +memory >"$root/cgroup.subtree_control" || true
	for ((try = 0; try < 200; try++)); do
		kill -0 "$SANDBOX_PID" 2>/dev/null || return 0
		[[ ! -s $SANDBOX_CGROUP/processes/cgroup.procs ]] || break
		sleep 0.05
	done
	echo "$SANDBOX_PID" >"$own/cgroup.procs"
}

# sandbox_end: kills remaining processes (the kernel ends the whole process namespace with its first process) and removes the
# cgroups and temporary files.
sandbox_end() {
	if [[ -n $SANDBOX_PID ]]; then
		kill -KILL "$SANDBOX_PID" 2>/dev/null || true
		wait "$SANDBOX_PID" 2>/dev/null || true
	fi
	local try
	for try in 1 2 3 4 5 6 7 8 9 10; do
		[[ -n $SANDBOX_CGROUP && -d $SANDBOX_CGROUP ]] || break
		find "$SANDBOX_CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || sleep "0.$try"
	done
	[[ -z $SANDBOX_TMP ]] || rm -rf "$SANDBOX_TMP"
	SANDBOX_PID='' SANDBOX_CGROUP='' SANDBOX_TMP=''
}

# sandbox_sweep: removes the cgroups of sandboxes whose script was killed by SIGKILL (their processes died with it): those
# without a process, and older than a minute, because a process enters a new one. Their scripts may be in other pid
# namespaces.
sandbox_sweep() {
	local stale
	while IFS= read -r stale; do
		if grep -qx 'populated 0' "$stale/cgroup.events" 2>/dev/null; then
			find "$stale" -depth -type d -exec rmdir {} + 2>/dev/null || true
		fi
	done < <(find "$(cgroup_root)" -maxdepth 1 -type d -name 'sluice-sandbox.*' -mmin +1)
}

# catch_signals: from here on a signal ends the script by its EXIT trap. Otherwise bash ignores an interrupt that arrives
# while a command of its own runs and then succeeds.
catch_signals() {
	trap 'sandbox_end' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

# sandbox COMMAND...: returns COMMAND's exit code; after a signal 128 plus the signal's number, as usual.
sandbox() {
	local code=0
	need_root
	SANDBOX_TMP=$(mktemp -d "${TMPDIR:-/tmp}/sluice-sandbox.XXXXXX")
	catch_signals
	sandbox_sweep
	SANDBOX_CGROUP=$(mktemp -d "$(cgroup_root)/sluice-sandbox.XXXXXX")
	# In the background, so that a signal is handled at once and not when the command ends. It enters its cgroup first, because
	# that cgroup becomes the root of its cgroup namespace.
	# shellcheck disable=SC2016  # expanded inside
	TMPDIR=$SANDBOX_TMP bash -c 'echo $$ >"$1/cgroup.procs" && exec setpriv --pdeathsig KILL unshare --cgroup --mount \
		--propagation private --net --pid --fork --kill-child --mount-proc "${@:2}"' sandbox "$SANDBOX_CGROUP" \
		"$SLUICE_ROOT/scripts/lib/sandbox-init" "$SANDBOX_CGROUP" "$(cgroup_root)" "$@" </dev/null &
	SANDBOX_PID=$!
	[[ -n $(memory_v1) ]] || sandbox_controllers || true
	wait "$SANDBOX_PID" || code=$?
	sandbox_end
	return "$code"
}
