# The libraries that Sluice is built with, as Debian packages, for scripts/setup and scripts/lib/sysroot. Sourced after apt.sh.
# shellcheck shell=bash disable=SC2034  # used by the scripts that source this

LIBRARY_PACKAGES=(
	libbpf-dev linux-libc-dev libelf-dev zlib1g-dev catch2
	libsimdjson-dev libfmt-dev libspdlog-dev libyaml-cpp-dev libcli11-dev prometheus-cpp-dev libssl-dev libprotozero-dev
)
# Packages that are too old in Debian 12 itself: the oldest sufficient version (0: any).
declare -A OLDEST=([libbpf-dev]=1:1.4 [bpftool]=7.4 [catch2]=3.5 [linux-libc-dev]=6.6
	[golang-go]=2:1.21)

# boost_package RELEASE: the package of Boost's headers and libraries.
boost_package() {
	case $1 in
	12) echo libboost1.81-dev ;;
	13) echo libboost1.83-dev ;;
	esac
}

# requests RELEASE PACKAGE...: arguments for apt, one per line: Debian 12's own package, or its backport if only that is new
# enough.
requests() {
	local number=$1 package
	for package in "${@:2}"; do
		if ((number == 12)) && [[ -n ${OLDEST[$package]:-} ]]; then
			printf '%s/bookworm-backports\n' "$package"
			# Their exact dependencies, which apt would otherwise take from the release.
			[[ $package != libbpf-dev ]] || echo libbpf1/bookworm-backports
			[[ $package != golang-go ]] || echo golang-src/bookworm-backports
		else
			printf '%s\n' "$package"
		fi
	done
}
