# SPDX-License-Identifier: Apache-2.0
# Remembers tests that passed, and does not run them again until something changes: for developers, who run a level after
# each small change. Not used in CI (CI=true), with --again or --long (which draws other random numbers each time), or for
# tests selected by name. Sourced after build.sh.
# shellcheck shell=bash

RESULTS=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/passed

# results_environment: what a test's result may depend on besides files.
results_environment() {
	printf '%s\n' "$(uname -r)" "${SLUICE_WITHOUT:-}" "${SLUICE_SEED:-}" "${PARTNERS:-}" "${KERNELS:-}"
	cat "${BUILD_ROOT%/debian13/build}"/netfilter-tools/*/packages 2>/dev/null || true
}

# tested_files LEVEL: the files that the level tests or uses, besides its own program.
tested_files() {
	case $1 in
	unit | golden | fuzz) printf '%s\n' tests/corpus tests/golden docs/kube-proxy-config.md k8s/examples ;;
	prog) printf '%s\n' tests/prog "$PLAIN_DIR/bpf/lb.o" "$PLAIN_DIR/tests/prog/fixtures" ;;
	net) printf '%s\n' tests/net tests/e2e/lib tests/corpus/kube_proxy_rules k8s/examples docs/guides scripts/lib "$PLAIN_DIR/sluice" ;;
	*) printf '%s\n' tests/e2e tests/net tests/package tests/cluster k8s docs/guides scripts CMakeLists.txt "$PLAIN_DIR/sluice" ;;
	esac
}

# result_key LEVEL TITLE [PROGRAM]: a file name that changes whenever anything changes on which the test may depend.
result_key() {
	local -a paths
	mapfile -t paths < <(tested_files "$1")
	paths+=("${@:3}")
	{
		printf '%s\n' "$1" "$2" && results_environment
		cd "$SLUICE_ROOT" && find "${paths[@]}" -xtype f ! -name '*.pyc' -print0 2>/dev/null | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-40
}

# passed_before KEY TITLE: whether the test has passed; if so, counts its cases and prints that.
passed_before() {
	[[ ${CI:-} != true && -z ${SLUICE_AGAIN:-}${SLUICE_LONG:-} && -s $RESULTS/$1 ]] || return 1
	passed "$(<"$RESULTS/$1")"
	printf '%s\n' "$2: unchanged since it passed, not run (--again runs it)"
}

# remember_passed KEY COUNT: stores the result; removes results older than a month.
remember_passed() {
	mkdir -p "$RESULTS"
	printf '%d\n' "$2" >"$RESULTS/$1"
	find "$RESULTS" -type f -mtime +30 -delete
}
