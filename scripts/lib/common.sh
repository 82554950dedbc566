# SPDX-License-Identifier: Apache-2.0
# Shared by all scripts: the tree's path, messages, and quiet commands. Sourced, not run.
# shellcheck shell=bash

SLUICE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD_ROOT=${SLUICE_BUILD_ROOT:-$SLUICE_ROOT/build}

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
	BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' PLAIN=$'\e[0m'
else
	BOLD='' DIM='' RED='' GREEN='' YELLOW='' PLAIN=''
fi
# shellcheck disable=SC2034  # used by the scripts that source this
readonly BOLD DIM RED GREEN YELLOW PLAIN SLUICE_ROOT BUILD_ROOT

# say TEXT...: prints one line of progress.
say() { printf '%s\n' "$*"; }

# heading TEXT...: prints a line that starts a part.
heading() { printf '%s== %s%s\n' "$BOLD" "$*" "$PLAIN"; }

# die TEXT...: prints one message that says what to do, and exits with code 1.
die() {
	printf '%s%s: %s%s\n' "$RED" "${0##*/}" "$*" "$PLAIN" >&2
	exit 1
}

# need_root: fails without root, which BPF, namespaces and packages need.
need_root() { [[ $(id -u) -eq 0 ]] || die "must run as root; use sudo, or a root shell."; }

# prints PATTERN COMMAND...: whether COMMAND succeeds and a line of its output matches. The output is read to its end: in
# `COMMAND | grep -q` grep ends at the first match, and if COMMAND goes on writing, SIGPIPE ends it, which pipefail takes for
# a failure.
prints() {
	local output
	output=$("${@:2}") && grep -q -- "$1" <<<"$output"
}

# lacks PATTERN COMMAND...: whether COMMAND succeeds and no line of its output matches.
lacks() {
	local output
	output=$("${@:2}") && ! grep -q -- "$1" <<<"$output"
}

# net_programs: the output of `bpftool -j net show` without errors. Looking for links to netfilter, bpftool goes through those of
# the whole machine, and prints an error for each of another test's that ends meanwhile.
net_programs() { jq -cS '.[0] | .netfilter = [.netfilter[]? | select(has("error") | not)]'; }

# quietly TITLE COMMAND...: prints one line with the time it took; the output only if it fails.
quietly() {
	local title=$1 log start=$SECONDS code=0
	shift
	log=$(mktemp "${TMPDIR:-/tmp}/sluice.XXXXXX")
	"$@" >"$log" 2>&1 || code=$?
	if ((code == 0)); then
		printf '%-62s %s%3d s%s\n' "$title" "$DIM" $((SECONDS - start)) "$PLAIN"
	else
		cat "$log"
		printf '%s%s: failed (exit code %d), output above%s\n' "$RED" "$title" "$code" "$PLAIN"
	fi
	rm -f "$log"
	return "$code"
}

# scenario_files LEVEL: the level's scenarios, by name; directories below the level are topics, except those of libraries.
scenario_files() {
	find "$SLUICE_ROOT/tests/$1" \( -name lib -o -name programs -o -name partners \) -prune -o -type f -name '*.sh' -printf '%f %p\n' |
		sort | cut -d' ' -f2
}

# scenario_file LEVEL/NAME: the scenario's path; empty if there is none.
scenario_file() { scenario_files "${1%%/*}" | grep "/${1#*/}\.sh$" || true; }

# has_git: whether the tree is a clone, and not a source archive.
has_git() { git -c safe.directory='*' -C "$SLUICE_ROOT" rev-parse --git-dir >/dev/null 2>&1; }

# tree_files PATTERN...: the files of this tree that git tracks or would add; in a source archive all that .gitignore does not
# name. scripts/lib/tree.py has the same for Python.
tree_files() {
	if has_git; then
		git -c safe.directory='*' -C "$SLUICE_ROOT" ls-files --cached --others --exclude-standard --deduplicate -- "$@" |
			while IFS= read -r file; do
				[[ ! -e $SLUICE_ROOT/$file ]] || printf '%s\n' "$file"
			done
	else
		local -a paths=()
		local pattern
		# As in git's patterns, * stands for slashes too.
		for pattern; do paths+=(-o -path "./$pattern"); done
		(cd "$SLUICE_ROOT" && find . \( -path './.git' -o -path './build*' -o -path ./.cache -o -name __pycache__ \) -prune -o -type f \
			! -name '*.pyc' \( "${paths[@]:1}" \) -printf '%P\n' | sort)
	fi
}
