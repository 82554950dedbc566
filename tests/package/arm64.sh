#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The output of scripts/build --arch arm64: the pure parts pass their tests under emulation, the BPF programs are byte for
# byte those for amd64, Debian's arm64 kernels load them with every configuration and pass the packet tables in emulated
# machines, and the arm64 image has all libraries that its binary loads. Only in the long form: the build takes as long as
# that for this machine.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

BUILD=$BUILD_ROOT/arm64
WORK=$(mktemp -d "${TMPDIR:-/tmp}/arm64.XXXXXX")
trap 'rm -rf "$WORK"' EXIT

emulated() { qemu-aarch64-static -L "$@"; }

# Catch2's expression for what qemu-user cannot run: its /proc/self/stat has no memory.
NOT_EMULATED='~the figures of this process'

# level NAME: runs the level's tests under emulation, in their short form: the long one, of the same code, takes hours here.
level() {
	(cd "$SLUICE_ROOT" && unset SLUICE_LONG &&
		emulated "$SYSROOT" "$BUILD/tests/test_$1" --reporter compact "$NOT_EMULATED" >"$WORK/$1.log" 2>&1) || die "$1: $(tail -n 20 "$WORK/$1.log")"
	printf '%s by emulation: %s\n' "$1" "$(grep 'All tests passed' "$WORK/$1.log")"
}

# programs LINE KERNEL: loads the programs and runs the packet tables in a machine with that kernel.
programs() {
	local log=$WORK/prog-$1.log
	[[ -n $2 ]] || die "there is no Linux $1 for arm64 here, and none could be fetched"
	[[ $1 != 6.1 ]] || local -x SLUICE_WITHOUT=tcx # the tests must know that it is absent
	VM_ARCH=arm64 VM_ROOT=$ARM64_GUEST VM_SECONDS=3600 "$SLUICE_ROOT/scripts/lib/vm" "$2" "$WORK/guest-$1" \
		bash -c "modprobe nf_conntrack && exec '$BUILD/tests/test_prog' 'every program*','tables*'" >"$log" 2>&1 || die "Linux $1: $(tail -n 40 "$log")"
	printf 'programs and packet tables on Linux %s for arm64: %s\n' "$1" "$(grep 'All tests passed' "$log")"
}

image() {
	local archive blob
	SOURCE_DATE_EPOCH=1 "$SLUICE_ROOT/scripts/package" image --arch arm64 --output "$WORK/image" >&2
	archive=$(echo "$WORK"/image/*.oci.tar)
	python3 "$SLUICE_ROOT/scripts/lib/oci.py" check "$archive" >/dev/null
	(($(stat -c %s "$archive") <= 60 * 1024 * 1024)) || die "the image has $(stat -c %s "$archive") bytes"
	mkdir "$WORK/root" "$WORK/layout"
	tar -xf "$archive" -C "$WORK/layout"
	# Those that are no layers are JSON.
	for blob in "$WORK"/layout/blobs/sha256/*; do
		gzip -dc "$blob" 2>/dev/null | tar -x -C "$WORK/root" 2>/dev/null || true
	done
	[[ $(readelf -h "$WORK/root/usr/bin/sluice") == *AArch64* ]] || die "the image has a binary for another architecture"
	[[ $(emulated "$WORK/root" "$WORK/root/usr/bin/sluice" --version) == "$("$BUILD_ROOT/sluice" --version)" ]] || die "the image does not run"
	printf 'image for arm64: %d bytes\n' "$(stat -c %s "$archive")"
}

"$SLUICE_ROOT/scripts/build" --arch arm64 sluice tests/test_unit tests/test_golden tests/test_prog
SYSROOT=$("$SLUICE_ROOT/scripts/lib/sysroot" arm64)
ARM64_GUEST=${ARM64_GUEST:-$("$SLUICE_ROOT/scripts/lib/sysroot" arm64 guest)}
ARM64_KERNELS=${ARM64_KERNELS:-$("$SLUICE_ROOT/scripts/lib/kernels" arm64)}
for level in unit golden; do level "$level"; done
while read -r line kernel; do programs "$line" "$kernel"; done <<<"$ARM64_KERNELS"
cmp "$BUILD/bpf/lb.o" "$BUILD_ROOT/bpf/lb.o" || die "the programs for the kernel are not the same as for amd64"
image
