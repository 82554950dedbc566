#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016  # dpkg-query's own names
# The Debian package: dpkg installs, upgrades, removes and purges it on an overlay of this machine's root file system, and
# the installed files serve as its unit starts them.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/scenario.sh"
# shellcheck source=tests/package/lib/twice.sh
source "$SLUICE_ROOT/tests/package/lib/twice.sh"

UNITS=usr/lib/systemd/system
TEXTFILE=var/lib/prometheus/node-exporter/sluice.prom

# machine: mounts this machine's root file system at $ROOT with an overlay in memory for writes.
machine() {
	mkdir "$LAB_DIR/memory"
	mount -t tmpfs memory "$LAB_DIR/memory"
	mkdir "$LAB_DIR/memory/upper" "$LAB_DIR/memory/work" "$LAB_DIR/memory/root"
	ROOT=$LAB_DIR/memory/root
	mount -t overlay -o "lowerdir=/,upperdir=$LAB_DIR/memory/upper,workdir=$LAB_DIR/memory/work" machine "$ROOT"
	mount --bind /proc "$ROOT/proc"
	mount --rbind /sys "$ROOT/sys"
	mount --bind /dev "$ROOT/dev"
	# Remove a package that is installed on this machine: it is not the one under test.
	[[ ! -e $ROOT/usr/bin/sluice ]] || in_machine dpkg --purge sluice >&2
}

in_machine() { chroot "$ROOT" env DEBIAN_FRONTEND=noninteractive "$@"; }
status_of() { in_machine dpkg-query -W -f '${db:Status-Status}' sluice; }

# ours: lists all that has been written in the usual places, except for dpkg's own files.
ours() { (cd "$LAB_DIR/memory/upper" && find . \( -ipath '*sluice*' -o -name '*.service' -o -name '*.timer' \) ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './tmp/*' ! -type c | sort); }

installed() {
	cp "$DEB" "$ROOT/sluice.deb"
	in_machine dpkg -i /sluice.deb >"$LAB_DIR/dpkg.log" 2>&1 || die "dpkg -i: $(cat "$LAB_DIR/dpkg.log")"
	[[ $(status_of) == installed ]] || die "after dpkg -i it is $(status_of)"
	in_machine dpkg --verify sluice >&2 || die "files differ from the package's"
	[[ -L $ROOT/etc/systemd/system/multi-user.target.wants/sluice.service ]] || die "the unit is not enabled"
	[[ -L $ROOT/etc/systemd/system/timers.target.wants/sluice-textfile.timer ]] || die "the timer is not enabled"
	[[ $(in_machine sluice --version) == "sluice $(dpkg-deb -f "$DEB" Version)" ]] || die "the binary does not run"
	printf 'installed: %s\n' "$(dpkg-deb -f "$DEB" Depends)"
}

# units_are_good: checks the units with systemd, which reports unknown directives and missing programs; each is an error
# here.
units_are_good() {
	local said unit
	for unit in sluice.service sluice-textfile.timer; do
		said=$(in_machine systemd-analyze verify "/$UNITS/$unit" 2>&1) || die "systemd-analyze: $said"
		[[ $said != *sluice* ]] || die "systemd-analyze: $said"
	done
	printf 'systemd-analyze verify: good\n'
}

# command_line: ExecStart with the conffile's options, split into words as systemd splits $NAME.
command_line() {
	local SLUICE_OPTIONS='' line
	# shellcheck source=/dev/null
	source "$ROOT/etc/default/sluice"
	line=$(sed -n 's/^ExecStart=//p' "$ROOT/$UNITS/sluice.service")
	printf '%s\n' "${line/\$SLUICE_OPTIONS/$SLUICE_OPTIONS}" | tr -s ' ' '\n'
}

# serves: checks the installed agent, started as the unit does, with the lab's manifests.
serves() {
	local -a words
	lab_backends
	mapfile -t words < <(command_line)
	[[ ${words[*]} == "/usr/bin/sluice agent --manifests /etc/sluice --devices auto" ]] || die "the unit runs '${words[*]}'"
	cp "$LAB_MANIFESTS"/* "$ROOT/etc/sluice/"
	lab_start node agent.log chroot "$ROOT" "${words[@]}" --node node --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --pod-devices none
	LAB_AGENT=$LAB_STARTED
	lab_wait 30 lab_in node curl -fsS -o /dev/null -m 2 http://127.0.0.1:10256/healthz || die "not ready: $(tail -n 5 "$LAB_DIR/agent.log")"
	lab_wait 10 lab_ask client tcp 10.0.0.10 30080 || die "a node port does not answer"
	mkdir -p "$ROOT/${TEXTFILE%/*}"
	textfile 0
	lab_stop "$LAB_AGENT" TERM || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
	textfile 1
	lab_sluice cleanup >&2
	textfile 0
	rm "$ROOT/etc/sluice"/*
	printf 'serves by %s\n' "${words[*]}"
}

# textfile VALUE: checks the metric that the timer's service writes for node_exporter, in the directory that Debian's
# node_exporter package makes.
textfile() {
	local -a words
	read -ra words < <(sed -n 's/^ExecStart=//p' "$ROOT/$UNITS/sluice-textfile.service")
	[[ ${words[-1]} == "/$TEXTFILE" ]] || die "the timer's service runs '${words[*]}'"
	in_machine "${words[@]}" --pins "$LAB_PINS"
	grep -qx "sluice_agent_absent{pins=\"$LAB_PINS\"} $1" "$ROOT/$TEXTFILE" || die "REL-97: not $1: $(cat "$ROOT/$TEXTFILE")"
	printf 'REL-97: sluice_agent_absent is %s\n' "$1"
}

# conffile_kept: a changed conffile survives an upgrade and a removal, and a purge leaves nothing.
conffile_kept() {
	echo 'SLUICE_OPTIONS="--devices eth7"' >"$ROOT/etc/default/sluice"
	in_machine dpkg -i --force-confold /sluice.deb >>"$LAB_DIR/dpkg.log" 2>&1 || die "upgrade: $(cat "$LAB_DIR/dpkg.log")"
	grep -q eth7 "$ROOT/etc/default/sluice" || die "an upgrade took the changed conffile away"
	in_machine dpkg --remove sluice >>"$LAB_DIR/dpkg.log" 2>&1 || die "removal: $(cat "$LAB_DIR/dpkg.log")"
	[[ $(status_of) == config-files && ! -e $ROOT/usr/bin/sluice ]] || die "after a removal it is $(status_of)"
	grep -q eth7 "$ROOT/etc/default/sluice" || die "a removal took the changed conffile away"
	[[ ! -e $ROOT/$TEXTFILE ]] || die "a removal leaves what monitoring reads"
	grep -q 'nothing of Sluice is left' "$LAB_DIR/dpkg.log" || die "a removal does not clean up: $(cat "$LAB_DIR/dpkg.log")"
}

purged() {
	mkdir -p "$ROOT/etc/sluice"
	touch "$ROOT/etc/sluice/web.yaml"
	in_machine dpkg --purge sluice >>"$LAB_DIR/dpkg.log" 2>&1 || die "purge: $(cat "$LAB_DIR/dpkg.log")"
	rm "$ROOT/sluice.deb"
	[[ -z $(ours) ]] || die "a purge leaves $(ours)"
	printf 'purged: nothing is left\n'
}

lab_up deb
twice deb
DEB=$(echo "$LAB_DIR"/once/*.deb)
machine
installed
units_are_good
serves
conffile_kept
purged
umount -R "$LAB_DIR/memory"
