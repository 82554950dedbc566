# SPDX-License-Identifier: Apache-2.0
# Makes an artifact twice, and compares both. Sourced after scenario.sh.
# shellcheck shell=bash

# twice PACKAGE [OPTION...]: makes it in $LAB_DIR/once and $LAB_DIR/again; fails unless both are equal byte for byte.
twice() {
	local into
	for into in once again; do
		"$SLUICE_ROOT/scripts/package" "$@" --output "$LAB_DIR/$into" >"$LAB_DIR/$into.log" || die "$*: $(cat "$LAB_DIR/$into.log")"
	done
	diff -r "$LAB_DIR/once" "$LAB_DIR/again" || die "$*: two are not equal"
	(cd "$LAB_DIR/once" && printf 'made twice, and equal: %s\n' ./*)
}
