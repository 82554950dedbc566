# SPDX-License-Identifier: Apache-2.0
# Runs a command so that nothing of it can outlive it: in its own process, mount, network and cgroup namespaces, with its own
# bpffs, /run/netns and TMPDIR, and in a cgroup that it sees as the root. Sourced after common.sh.
#
# If the script that runs it is killed by SIGKILL, the kernel kills the sandbox's processes, and with them go namespaces,
# mounts, pins and devices. Its cgroups and temporary files stay until the next sandbox starts: a record names them, which
# the script holds locked while it lives.
# shellcheck shell=bash

SANDBOX_PID='' SANDBOX_CGROUP='' SANDBOX_MEMORY='' SANDBOX_TMP='' SANDBOX_RECORD='' SANDBOX_LOCK=''
SANDBOX_RECORDS=/run/sluice-sandboxes

# cgroup_root: the mount point of cgroup v2, alone or beside v1.
cgroup_root() {
	local found
	found=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
	[[ -n $found ]] || die "finds no cgroup v2; mount it: mount -t cgroup2 none /sys/fs/cgroup (or below it)."
	printf '%s\n' "$found"
}

# memory_v1: the mount point of version 1's memory controller; empty if it has none.
memory_v1() { awk '$3 == "cgroup" && (","$4",") ~ /,memory,/ { print $2; exit }' /proc/self/mounts; }

# own_memory_v1: the memory cgroup of this process in version 1; empty without that.
own_memory_v1() {
	local root
	root=$(memory_v1)
	[[ -z $root ]] || printf '%s\n' "$root$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)"
}

# memory_cgroup: a directory in which a memory cgroup can be made, and the name of its limit: version 1, or 2 with the
# controller enabled.
memory_cgroup() {
	local root
	root=$(own_memory_v1)
	if [[ -n $root ]]; then
		printf '%s memory.limit_in_bytes\n' "$root"
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

# sandbox_record: records what will be made, before it is made. A lock on the directory keeps other scripts from sweeping
# meanwhile.
sandbox_record() {
	local directory
	mkdir -p "$SANDBOX_RECORDS"
	exec {directory}<"$SANDBOX_RECORDS"
	flock "$directory"
	sandbox_sweep
	SANDBOX_RECORD=$(mktemp "$SANDBOX_RECORDS/XXXXXX")
	exec {SANDBOX_LOCK}>"$SANDBOX_RECORD"
	flock "$SANDBOX_LOCK"
	SANDBOX_TMP=${TMPDIR:-/tmp}/sluice-sandbox.${SANDBOX_RECORD##*/}
	SANDBOX_CGROUP=$(cgroup_root)/sluice-sandbox.${SANDBOX_RECORD##*/}
	SANDBOX_MEMORY=$(own_memory_v1)
	SANDBOX_MEMORY=${SANDBOX_MEMORY:+$SANDBOX_MEMORY/sluice-sandbox.${SANDBOX_RECORD##*/}}
	printf '%s\n' "$SANDBOX_TMP" "$SANDBOX_CGROUP" "$SANDBOX_MEMORY" >"$SANDBOX_RECORD"
	exec {directory}<&-
}

# sandbox_remove TMP CGROUP...: kills processes that remain in the cgroups, and removes these and the files.
sandbox_remove() {
	local cgroup try
	for cgroup in "${@:2}"; do
		for try in 1 2 3 4 5 6 7 8 9 10; do
			[[ -n $cgroup && -d $cgroup ]] || break
			[[ ! -e $cgroup/cgroup.kill ]] || echo 1 >"$cgroup/cgroup.kill" || true
			find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep "0.$try"
		done
	done
	[[ -z $1 ]] || rm -rf "$1"
}

# sandbox_end: kills remaining processes (the kernel ends the whole process namespace with its first process) and removes the
# cgroups and temporary files.
sandbox_end() {
	if [[ -n $SANDBOX_PID ]]; then
		kill -KILL "$SANDBOX_PID" 2>/dev/null || true
		wait "$SANDBOX_PID" 2>/dev/null || true
	fi
	sandbox_remove "$SANDBOX_TMP" "$SANDBOX_CGROUP" "$SANDBOX_MEMORY"
	[[ -z $SANDBOX_RECORD ]] || rm -f "$SANDBOX_RECORD"
	[[ -z $SANDBOX_LOCK ]] || exec {SANDBOX_LOCK}>&-
	SANDBOX_PID='' SANDBOX_CGROUP='' SANDBOX_MEMORY='' SANDBOX_TMP='' SANDBOX_RECORD='' SANDBOX_LOCK=''
}

# sandbox_sweep: removes what sandboxes left behind whose script was killed by SIGKILL: what their records name, if nobody
# holds those; and cgroups of scripts whose /run is gone, too (scripts/fresh): with a sandbox's name, without a process, and
# older than a minute, because a process enters a new one.
sandbox_sweep() {
	local record lock stale
	local -a left
	for record in "$SANDBOX_RECORDS"/*; do
		[[ -e $record ]] || continue
		exec {lock}<"$record"
		if flock --nonblock "$lock"; then
			mapfile -t left <"$record"
			sandbox_remove "${left[@]:-}"
			rm -f "$record"
		fi
		exec {lock}<&-
	done
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
	local code=0 parent=$BASHPID
	need_root
	catch_signals
	sandbox_record
	mkdir -m 700 "$SANDBOX_TMP"
	mkdir "$SANDBOX_CGROUP" ${SANDBOX_MEMORY:+"$SANDBOX_MEMORY"}
	# In the background, so that a signal is handled at once and not when the command ends. It enters its cgroups first,
	# because they become the roots of its cgroup namespace. The parent may be dead before setpriv asks for the signal.
	# shellcheck disable=SC2016  # expanded inside
	TMPDIR=$SANDBOX_TMP setpriv --pdeathsig KILL bash -c '
		[[ $PPID == "$1" ]] || exit
		for cgroup in "$2" $3; do echo $$ >"$cgroup/cgroup.procs" || exit; done
		exec unshare --cgroup --mount --propagation private --net --pid --fork --kill-child --mount-proc "${@:4}"' \
		sandbox "$parent" "$SANDBOX_CGROUP" "$SANDBOX_MEMORY" \
		"$SLUICE_ROOT/scripts/lib/sandbox-init" "$SANDBOX_CGROUP" "$(cgroup_root)" "$SANDBOX_MEMORY" "$@" \
		</dev/null {SANDBOX_LOCK}>&- &
	SANDBOX_PID=$!
	[[ -n $(memory_v1) ]] || sandbox_controllers || true
	wait "$SANDBOX_PID" || code=$?
	sandbox_end
	return "$code"
}
