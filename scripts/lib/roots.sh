# SPDX-License-Identifier: Apache-2.0
# Root directories of Debian releases, made by mmdebstrap, and commands run in them: for scripts/fresh and level `debian13`.
# Sourced after common.sh.
# shellcheck shell=bash

# mirror: the URL of the Debian archive that this machine uses; empty if it uses none.
mirror() {
	# shellcheck disable=SC2016  # apt's own variables
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null |
		sed -n 1p
}

# make_root SUITE DIRECTORY [PACKAGE...]: installs the smallest Debian with apt, and these packages, with this machine's proxy
# and certificates.
make_root() {
	local archive packages certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
	archive=$(mirror)
	packages=$(IFS=, && printf '%s' "${*:3}")
	mmdebstrap --quiet --variant=minbase ${packages:+--include="$packages"} "$1" "$2" ${archive:+"$archive"}
	apt-config dump | { grep -Ei '^Acquire::[a-z]+::(Proxy|CAInfo)' || true; } >"$2/etc/apt/apt.conf.d/90host"
	cp -L /etc/resolv.conf "$2/etc/resolv.conf"
	[[ ! -r $certificates ]] || cp -L "$certificates" "$2/etc/host-ca.crt"
}

# in_root DIRECTORY PREPARE NAME=VALUE... -- COMMAND...: replaces this shell by COMMAND in the root, in a mount namespace of its own.
# PREPARE is a shell command that mounts more into "$root" first.
in_root() {
	local root=$1 prepare=$2
	local -a variables=()
	shift 2
	while [[ $1 != -- ]]; do
		variables+=("$1")
		shift
	done
	shift
	# shellcheck disable=SC2016  # expanded inside
	exec unshare --mount --propagation private bash -c '
		set -e
		root=$1
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/run"
		eval "$2"
		exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 SSL_CERT_FILE=/etc/host-ca.crt "${@:4:$3}" \
			chroot "$root" "${@:4+$3}"' \
		in_root "$root" "$prepare" "${#variables[@]}" "${variables[@]}" "$@"
}
