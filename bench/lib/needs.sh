# SPDX-License-Identifier: Apache-2.0
# The requirements of each part of bench/run, so that a missing program affects only the parts that need it. Sourced after
# build.sh and machine.sh.
# shellcheck shell=bash

CLUSTER_PARTS=(packets connections cost api workload updates)

# Free memory needed, in GiB.
declare -A MEMORY=([idle]=1 [files]=1 [programs]=4 [plan]=1 [turns]=3 [publish]=2 [expiry]=4 [consistent]=2 [fanout]=1 [growth]=6 [packets]=6 [connections]=6 [cost]=6
	[api]=6 [workload]=6 [updates]=6)

# is_cluster_part PART: whether the part needs a control plane.
is_cluster_part() { [[ " ${CLUSTER_PARTS[*]} " == *" $1 "* ]]; }

any_cluster_part() {
	local part
	for part; do ! is_cluster_part "$part" || return 0; done
	return 1
}

# programs_of PART: prints the build targets that the part needs.
programs_of() {
	case $1 in
	idle | files | api) echo sluice ;;
	programs | plan | turns | publish | expiry | consistent | fanout) echo "bench/bench_$1" ;;
	growth) echo sluice bench/bench_{growth,connect,serve} ;;
	*) echo sluice bench/bench_{connect,serve,frames,syscalls} ;;
	esac
}

# commands_of PART: prints the other commands that the part needs.
commands_of() {
	case $1 in
	programs | plan | turns | publish | expiry | consistent | fanout) ;;
	idle | files) echo ip nsenter ethtool curl ;;
	growth) echo ip nsenter ethtool curl jq ;;
	workload) echo ip nsenter ethtool curl jq openssl nft iptables-save conntrack nginx hey ;;
	*) echo ip nsenter ethtool curl jq openssl nft iptables-save conntrack ;;
	esac
}

# partners_of PART: prints the control-plane binaries that the part needs.
partners_of() {
	case $1 in
	api) echo etcd kube-apiserver ;;
	*) ! is_cluster_part "$1" || echo etcd kube-apiserver kube-controller-manager kube-proxy ;;
	esac
}

# packages_for PART...: prints the Debian packages that the parts and the plots need in addition to those of scripts/setup.
packages_for() {
	echo python3-matplotlib
	! any_cluster_part "$@" || echo conntrack
	[[ " $* " != *" workload "* ]] || echo nginx-light
}

# install PACKAGE: installs the package without starting services: nginx would start if there is an init system.
install() (
	policy=/usr/sbin/policy-rc.d
	if [[ ! -e $policy ]]; then
		trap 'rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$1"
)

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# prepare PART...: installs and builds what the parts need. Reports failures; why_not reports them again for each affected part.
prepare() {
	local package
	"$SLUICE_ROOT/scripts/setup" || say "scripts/setup failed; continuing with the installed packages"
	while read -r package; do
		is_installed "$package" || quietly "installing $package" install "$package" || true
	done < <(packages_for "$@")
	build "$@"
	if any_cluster_part "$@"; then
		prepare_partners
	fi
}

# prepare_partners: sets the directories that scripts/lib/partners uses, even if one of the programs could not be built.
prepare_partners() {
	export PARTNERS=$BUILD_ROOT/partners OLDER_PARTNERS=$BUILD_ROOT/partners
	if [[ $RELEASE != 1.36 ]]; then
		PARTNERS+=/newest
		"$SLUICE_ROOT/scripts/lib/partners" --newest >/dev/null || true
	fi
	if [[ $RELEASE == 1.36 || " $ROUTES $AGENTS " == *" nftables-1.36 "* ]]; then
		"$SLUICE_ROOT/scripts/lib/partners" >/dev/null || true
	fi
}

declare -A BUILT=()

# build PART...: builds the parts' programs, one by one if they cannot all be built: outdated programs of an earlier build must
# not be measured.
build() {
	local part name all=yes
	local -a names=()
	for part; do mapfile -t -O "${#names[@]}" names < <(programs_of "$part" | tr ' ' '\n'); done
	build_plain "${names[@]}" || all=no
	for name in "${names[@]}"; do
		if [[ $all == yes ]] || make "$PLAIN_DIR" "building $name" "$name" >/dev/null; then BUILT[$name]=yes; fi
	done
}

# why_not PART: prints why the part cannot be measured; nothing if it can.
why_not() {
	local name
	for name in $(programs_of "$1"); do
		[[ -n ${BUILT[$name]:-} ]] || { printf '%s could not be built\n' "$name" && return; }
	done
	for name in $(commands_of "$1"); do
		command -v "$name" >/dev/null || { printf '%s is not installed\n' "$name" && return; }
	done
	for name in $(partners_of "$1"); do
		[[ -x ${PARTNERS:-}/$name ]] || { printf '%s is not available; see scripts/lib/partners\n' "$name" && return; }
	done
	((MEMORY_LEFT >= MEMORY[$1])) || printf 'needs %s GiB of free memory; %s GiB are free\n' "${MEMORY[$1]}" "$MEMORY_LEFT"
}
