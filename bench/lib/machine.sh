# SPDX-License-Identifier: Apache-2.0
# Facts about the machine for bench/run: its load, the memory left, and its hardware and software. Sourced after sandbox.sh, records.sh
# and settings.sh.
# shellcheck shell=bash

# ---- Processor time. ----

load() { cut -d' ' -f1 /proc/loadavg; }

# ticks: prints the CPU time of all processors since boot: busy (stolen time included), stolen, and total.
ticks() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9, $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9; exit }' /proc/stat; }

# processors_busy: prints the number of busy processors over the next three seconds. The load average would still include the
# build and the previous part.
processors_busy() {
	local before after
	before=$(ticks)
	sleep 3
	after=$(ticks)
	awk -v processors="$(nproc)" '{ printf "%.2f\n", ($6 > $3 ? ($4 - $1) / ($6 - $3) * processors : 0) }' <<<"$before $after"
}

# stolen BEFORE AFTER: prints the share of CPU time between two outputs of ticks that the hypervisor gave to other machines.
stolen() { awk '{ printf "%.4f\n", ($6 > $3 ? ($5 - $2) / ($6 - $3) : 0) }' <<<"$1 $2"; }

# ---- Memory. ----

# cgroup_left: prints the bytes that the limits of a sandbox's memory cgroup and of its ancestors leave free; nothing without
# a limit. With version 1 a sandbox stays in our cgroup; with version 2 its cgroup is made below the root. Inactive page cache
# counts as free.
cgroup_left() {
	local root place=/ limit=memory.max used=memory.current cache=inactive_file
	root=$(awk '$3 == "cgroup" && (","$4",") ~ /,memory,/ { print $2; exit }' /proc/self/mounts)
	if [[ -n $root ]]; then
		place=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
		limit=memory.limit_in_bytes used=memory.usage_in_bytes cache=total_inactive_file
	else
		root=$(cgroup_root)
	fi
	while :; do
		if [[ -r $root$place/$limit && $(<"$root$place/$limit") =~ ^[0-9]+$ ]]; then
			awk -v limit="$(<"$root$place/$limit")" -v used="$(<"$root$place/$used")" -v cache="$cache" \
				'$1 == cache { print limit - used + $2 }' "$root$place/memory.stat"
		fi
		[[ $place != / && -n $place ]] || break
		place=$(dirname "$place")
	done | sort -g | sed -n 1p
}

# memory_left: prints the free memory in GiB, rounded down.
memory_left() { { awk '/^MemAvailable/ { print $2 * 1024 }' /proc/meminfo && cgroup_left; } | sort -g | awk 'NR == 1 { print int($1 / 2 ^ 30) }'; }

# ---- Hardware and software. ----

# first_line COMMAND...: prints the first line of the command's output.
first_line() { { "$@" 2>&1 || true; } | sed -n 1p; }

# hypervisor: prints the hypervisor's name, if it can be detected.
hypervisor() {
	local name
	name=$(systemd-detect-virt --vm 2>/dev/null) || true
	if [[ -n $name && $name != none ]]; then
		printf '%s\n' "$name"
	elif grep -qw '^flags.* hypervisor' /proc/cpuinfo; then
		printf 'unknown\n'
	else
		printf 'none\n'
	fi
}

# mitigations: prints the mitigation of each vulnerability that affects the processor.
mitigations() {
	local file
	for file in /sys/devices/system/cpu/vulnerabilities/*; do
		[[ ! -r $file ]] || printf '%s: %s\n' "${file##*/}" "$(<"$file")"
	done | grep -v '^[^:]*: Not affected$' | paste -sd '|' | sed 's/|/ | /g'
}

# installed_version PACKAGE: prints the package's version, for a program that does not print its own.
installed_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null; }

# partner_versions: prints KEY=VALUE for each program that a part may use, one per line.
partner_versions() {
	local name
	for name in etcd kube-apiserver kube-controller-manager kube-proxy; do
		[[ ! -x ${PARTNERS:-}/$name ]] || printf '%s=%s\n' "$name" "$(first_line "$PARTNERS/$name" --version)"
	done
	[[ ! -x ${OLDER_PARTNERS:-}/kube-proxy ]] || printf 'kube-proxy-1.36=%s\n' "$(first_line "$OLDER_PARTNERS/kube-proxy" --version)"
	! command -v nginx >/dev/null || printf 'nginx=%s\n' "$(first_line nginx -v)"
	! command -v hey >/dev/null || printf 'hey=%s\n' "$(installed_version hey)"
	! command -v iptables >/dev/null || printf 'iptables=%s\n' "$(first_line iptables --version)"
	! command -v iptables-legacy >/dev/null || printf 'iptables-legacy=%s\n' "$(first_line iptables-legacy --version)"
	! command -v nft >/dev/null || printf 'nftables=%s\n' "$(first_line nft --version)"
	[[ ! -x $BUILD_ROOT/sluice ]] || printf 'sluice=%s\n' "$(first_line "$BUILD_ROOT/sluice" --version)"
}

# environment PART...: records the environment of this run.
environment() {
	local name
	local -a fields
	mapfile -t fields < <(partner_versions)
	for name in "${SETTINGS[@]}"; do fields+=("$name=${!name}"); done
	for name in SLUICE_WITHOUT SLUICE_PARTNERS KUBEBUILDER_ASSETS; do
		[[ -z ${!name:-} ]] || fields+=("$name=${!name}")
	done
	record environment date="$(date -u +%Y-%m-%dT%H:%MZ)" parts="$*" \
		tree="$(git -c safe.directory='*' -C "$SLUICE_ROOT" describe --always --dirty 2>/dev/null || echo unknown)" \
		kernel="$(uname -r)" system="$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" processors="$(nproc)" \
		model="$(sed -n 's/^model name.*: //p' /proc/cpuinfo | sed -n 1p)" hypervisor="$(hypervisor)" mitigations="$(mitigations)" \
		memory="$(awk '/^MemTotal/ { print int($2 / 1048576 + 0.5) " GiB" }' /proc/meminfo)" "${fields[@]}"
}
