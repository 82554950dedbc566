#!/bin/bash
# What scripts/build --arch arm64 has built: the pure parts pass their tests by emulation, the programs for the kernel are the same bytes as here,
# and the image for arm64 has all that its binary loads. Of the long form alone: the build takes as long as this machine's own.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

BUILD=$BUILD_ROOT/arm64
WORK=$(mktemp -d "${TMPDIR:-/tmp}/arm64.XXXXXX")
trap 'rm -rf "$WORK"' EXIT

emulated() { qemu-aarch64-static -L "$@"; }

# level NAME: its tests, by emulation; as many as this machine's own binary has, where there is one.
level() {
	(cd "$SLUICE_ROOT" && emulated "$SYSROOT" "$BUILD/tests/test_$1" --reporter compact >"$WORK/$1.log" 2>&1) || die "$1: $(tail -n 20 "$WORK/$1.log")"
	printf '%s by emulation: %s\n' "$1" "$(tail -n 1 "$WORK/$1.log")"
}

image() {
	local archive
	SOURCE_DATE_EPOCH=1 "$SLUICE_ROOT/scripts/package" image --arch arm64 --output "$WORK/image" >&2
	archive=$(echo "$WORK"/image/*.oci.tar)
	python3 "$SLUICE_ROOT/scripts/lib/oci.py" check "$archive" >/dev/null
	(($(stat -c %s "$archive") <= 60 * 1024 * 1024)) || die "the image has $(stat -c %s "$archive") bytes"
	mkdir "$WORK/root"
	tar -xOf "$archive" --wildcards 'blobs/sha256/*' --to-command 'gzip -dc 2>/dev/null | tar -x -C '"$WORK/root"' 2>/dev/null || true'
	[[ $(readelf -h "$WORK/root/usr/bin/sluice") == *AArch64* ]] || die "the image has a binary for another architecture"
	[[ $(emulated "$WORK/root" "$WORK/root/usr/bin/sluice" --version) == "$("$BUILD_ROOT/sluice" --version)" ]] || die "the image does not run"
	printf 'image for arm64: %d bytes\n' "$(stat -c %s "$archive")"
}

"$SLUICE_ROOT/scripts/build" --arch arm64 sluice tests/test_unit tests/test_golden
SYSROOT=$("$SLUICE_ROOT/scripts/lib/sysroot" arm64)
for level in unit golden; do level "$level"; done
cmp "$BUILD/bpf/lb.o" "$BUILD_ROOT/bpf/lb.o" || die "the programs for the kernel are not the same as for amd64"
image
