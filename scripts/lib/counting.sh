# SPDX-License-Identifier: Apache-2.0
# Runs tests and counts them: shared by scripts/lib/test-levels and, on other kernels, scripts/lib/kernel-tests. Sourced
# after build.sh.
# shellcheck shell=bash

PASSED=0 FAILED=0 SKIPPED=0 FAILURES=()
LOGS=$BUILD_ROOT/logs
LIMIT=${SLUICE_LONG:+7200}
LIMIT=${LIMIT:-2700}

passed() { PASSED=$((PASSED + $1)); }
failed() {
	FAILED=$((FAILED + $1))
	FAILURES+=("$2")
}
skipped() {
	if [[ ${CI:-} == true ]]; then
		failed "$1" "$2: skipped, which CI does not accept"
	else
		SKIPPED=$((SKIPPED + $1))
	fi
}

# excerpt LOG: prints a readable part of a failed test's output; all of it stays in $LOGS. Written at once, because tests run
# in parallel.
excerpt() {
	mkdir -p "$LOGS"
	cp "$1" "$LOGS"
	{
		if (($(wc -l <"$1") > 250)); then
			sed -n 1,200p "$1" && printf '…\n' && tail -n 30 "$1"
		else
			cat "$1"
		fi | cut -c1-400
		say "(the whole output: ${LOGS#"$SLUICE_ROOT"/}/${1##*/})"
	} >"$1.excerpt"
	cat "$1.excerpt"
}

# field XML NAME: an attribute of Catch2's final count of test cases; 0 if there is none.
field() {
	local value
	value=$(grep -o '<OverallResultsCases [^>]*>' "$1" | tail -n 1 | sed -n "s/.* $2=\"\([0-9]*\)\".*/\1/p")
	printf '%d\n' "${value:-0}"
}

# In CI a run has 90 minutes in all, whatever else its machine does. What has not begun by then is left out, and named.
CI_ENDS=$((72 * 60))

# no_time TITLE: whether it is too late to begin that, which it says.
no_time() {
	if [[ -z ${CI:-} || -n ${SLUICE_LONG:-} ]] || ((SECONDS < CI_ENDS)); then return 1; fi
	printf '%s: LEFT OUT: %d minutes of CI are over\n' "$1" $((CI_ENDS / 60))
}

# catch_level LEVEL DIRECTORY [TITLE TESTS]: runs DIRECTORY/tests/test_LEVEL, and counts its cases, of which there must be at
# least one. TESTS selects some of them, in Catch2's syntax.
catch_level() {
	local level=${3:-$1} binary=$2/tests/test_$1 start=$SECONDS code=0
	local xml=$TMPDIR/${level// /-}.xml log=$TMPDIR/${level// /-}.log key before=$FAILED
	if [[ ! -x $binary ]]; then
		failed 1 "$level: $binary was not built"
		return 0
	fi
	key=$(result_key "$1" "$level ${*:4}" "$binary")
	! passed_before "$key" "$level" || return 0
	! no_time "$level" || return 0
	(cd "$SLUICE_ROOT" && timeout -k 10 "$LIMIT" "$binary" "${@:4}" --reporter compact --reporter "xml::out=$xml") \
		>"$log" 2>&1 || code=$?
	if ((code != 0)); then excerpt "$log"; fi
	if ! grep -q '<OverallResultsCases ' "$xml" 2>/dev/null; then
		failed 1 "$level: ended before its summary (exit code $code; 124 is the limit of $LIMIT s)"
		return 0
	fi
	passed $(($(field "$xml" successes) + $(field "$xml" expectedFailures)))
	(($(field "$xml" successes) + $(field "$xml" expectedFailures) + $(field "$xml" failures) + $(field "$xml" skips) > 0)) ||
		failed 1 "$level: no case ran"
	(($(field "$xml" failures) == 0)) || failed "$(field "$xml" failures)" "$level: see above"
	(($(field "$xml" skips) == 0)) || skipped "$(field "$xml" skips)" "$level"
	# Catch2 exits with 4 when every test was skipped; a sanitizer's report at exit shows only in the exit code.
	if ((code != 0 && code != 4 && $(field "$xml" failures) == 0)); then failed 1 "$level: exit code $code"; fi
	if ((code == 0 && FAILED == before && $(field "$xml" skips) == 0)); then
		remember_passed "$key" $(($(field "$xml" successes) + $(field "$xml" expectedFailures)))
	fi
	printf '%-62s %s%3d s%s\n' "$level: $(field "$xml" successes) cases passed, $(field "$xml" failures) failed" \
		"$DIM" $((SECONDS - start)) "$PLAIN"
}

# instructions LOG: the verifier's instruction counts, as tests/prog/packets/reached.cpp prints them, so that growth is
# noticed.
instructions() {
	awk '/^instructions that the verifier/ { block = 1; print; next } block && /^  / { print; next } { block = 0 }' "$1"
}

# scenario LEVEL NAME [TITLE]: runs NAME.sh below tests/LEVEL as one test; exit code 77 is a skip.
scenario() {
	local title=${3:-$1}/$2.sh code=0 log key start=$SECONDS
	log=$TMPDIR/${title//[ \/]/-}.log
	key=$(result_key "$1" "$title")
	! passed_before "$key" "$title" || return 0
	! no_time "$title" || return 0
	SLUICE=$PLAIN_DIR/sluice timeout -k 10 "$LIMIT" bash "$(scenario_file "$1/$2")" >"$log" 2>&1 </dev/null || code=$?
	case $code in
	0)
		passed 1
		remember_passed "$key" 1
		;;
	77) skipped 1 "$title" ;;
	*)
		excerpt "$log"
		failed 1 "$title: exit code $code (124 is the limit of $LIMIT s)"
		;;
	esac
	printf '%-62s %s%3d s%s\n' "$title: exit code $code" "$DIM" $((SECONDS - start)) "$PLAIN"
}

# write_counts FILE: writes the counts for add_counts, in another shell.
write_counts() { printf '%s\n' "$PASSED $FAILED $SKIPPED" ${FAILURES[@]+"${FAILURES[@]}"} >"$1"; }

# add_counts FILE WHO: adds the counts in FILE; if there are none, WHO did not reach its end.
add_counts() {
	local -a counts failures
	if [[ ! -s $1 ]]; then
		failed 1 "$2 ended before its last test"
		return 0
	fi
	mapfile -t failures <"$1"
	read -ra counts <<<"${failures[0]}"
	PASSED=$((PASSED + counts[0])) FAILED=$((FAILED + counts[1])) SKIPPED=$((SKIPPED + counts[2]))
	FAILURES+=("${failures[@]:1}")
}
