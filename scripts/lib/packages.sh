# SPDX-License-Identifier: Apache-2.0
# What Sluice is built and tested with, as Debian packages, for scripts/setup, scripts/lib/sysroot and scripts/lib/debian13. Sourced
# after apt.sh.
# shellcheck shell=bash disable=SC2034  # used by the scripts that source this

LIBRARY_PACKAGES=(
	libbpf-dev linux-libc-dev libelf-dev zlib1g-dev catch2
	libsimdjson-dev libfmt-dev libspdlog-dev libyaml-cpp-dev libcli11-dev prometheus-cpp-dev libssl-dev libprotozero-dev
)
BUILD_PACKAGES=(
	g++ dpkg-dev cmake ninja-build ccache pkg-config git ca-certificates python3
	clang-19 clang-tidy-19 clang-format-19 llvm-19 libclang-rt-19-dev
	bpftool "${LIBRARY_PACKAGES[@]}"
)
TEST_PACKAGES=(
	iproute2 procps util-linux nftables iptables ethtool tcpdump strace curl jq ncat iperf3 iputils-ping traceroute nmap hey
	python3-scapy python3-yaml codespell openssl systemd libusrsctp-examples
	qemu-system-x86 busybox-static kmod wireguard-tools libteam-utils ipvsadm ipset conntrack
	mmdebstrap reuse
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
