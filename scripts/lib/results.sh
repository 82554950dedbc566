# What passed and has not changed since is not run again: for people, who run a level after each small change. Never in CI (CI=true), with
# --again or --long (which draws other random numbers each time), or for what is selected by name. Sourced after build.sh.
# shellcheck shell=bash

RESULTS=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/passed

# What a test's outcome may hang on besides files.
results_environment() {
	printf '%s\n' "$(uname -r)" "${SLUICE_WITHOUT:-}" "${SLUICE_SEED:-}" "${PARTNERS:-}" "${KERNELS:-}"
}

# tested_files LEVEL: what that level tests and tests with, besides its own program.
tested_files() {
	case $1 in
	unit | golden | fuzz) printf '%s\n' tests/corpus tests/golden docs/kube-proxy-config.md k8s/examples ;;
	prog) printf '%s\n' tests/prog "$PLAIN_DIR/bpf/lb.o" "$PLAIN_DIR/tests/prog/fixtures" ;;
	net) printf '%s\n' tests/net k8s/examples scripts/lib "$PLAIN_DIR/sluice" ;;
	*) printf '%s\n' tests/e2e tests/net tests/package tests/cluster k8s scripts CMakeLists.txt "$PLAIN_DIR/sluice" ;;
	esac
}

# result_key LEVEL TITLE [PROGRAM]: a file name, other as soon as anything differs that the test may depend on.
result_key() {
	local -a paths
	mapfile -t paths < <(tested_files "$1")
	paths+=("${@:3}")
	{
		printf '%s\n' "$1" "$2" && results_environment
		cd "$SLUICE_ROOT" && find "${paths[@]}" -type f ! -name '*.pyc' -print0 2>/dev/null | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-40
}

# passed_before KEY TITLE: whether it has; counts its cases then, and says so.
passed_before() {
	[[ ${CI:-} != true && -z ${SLUICE_AGAIN:-}${SLUICE_LONG:-} && -s $RESULTS/$1 ]] || return 1
	passed "$(<"$RESULTS/$1")"
	printf '%s\n' "$2: unchanged since it passed, not run (--again runs it)"
}

# remember_passed KEY COUNT: results of a month ago go.
remember_passed() {
	mkdir -p "$RESULTS"
	printf '%d\n' "$2" >"$RESULTS/$1"
	find "$RESULTS" -type f -mtime +30 -delete
}
