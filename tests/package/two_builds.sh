#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-59: the agent built twice from the same sources, in directories of different names, and the second time without a
# compiler cache: as packages contain it, both are equal byte for byte. Only in the long form: it compiles the whole agent.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

SLUICE=${SLUICE:-$BUILD_ROOT/sluice}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/two-builds.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
COPY=$WORK/elsewhere/of/another/length

mkdir -p "$COPY"
(cd "$SLUICE_ROOT" && tree_files '*' | tar --create --files-from -) | tar --extract --directory "$COPY"
env -u SLUICE_BUILD_ROOT CCACHE_DISABLE=1 "$COPY/scripts/build" sluice
for each in "$SLUICE once" "$COPY/build/sluice again"; do
	read -r binary name <<<"$each"
	"$SLUICE_ROOT/scripts/lib/strip" "$binary" "$WORK/$name"
done
cmp "$WORK/once" "$WORK/again" || die "REL-59: the agent's two builds differ"
sha256sum "$WORK/once" "$WORK/again" | sed "s|$WORK/||"
