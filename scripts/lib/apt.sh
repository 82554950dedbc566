# SPDX-License-Identifier: Apache-2.0
# Functions about apt: the release of this machine, packages unpacked without an installation, and sources for other releases. Sourced after common.sh.
# shellcheck shell=bash

# release: the Debian release's number, or an error that names what was found.
release() {
	local ID='' VERSION_ID='' PRETTY_NAME='an unknown system'
	# shellcheck source=/dev/null
	[[ -r /etc/os-release ]] && source /etc/os-release
	[[ $ID == debian && ($VERSION_ID == 12 || $VERSION_ID == 13) ]] ||
		die "knows Debian 12 and 13 only, and this is $PRETTY_NAME; install the packages named in scripts/setup by hand."
	printf '%s\n' "$VERSION_ID"
}

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 \
		-o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root "$@"
}

# with_missing PACKAGE...: they, and what they need that is not installed.
with_missing() {
	printf '%s\n' "$@"
	apt -s -o APT::Install-Recommends=false install "$@" | awk '$1 == "Inst" { print $2 }'
}

fetch_packages() {
	local -a packages
	mapfile -t packages < <(with_missing "$@" | sort -u)
	apt download "${packages[@]}"
}

# unpack_packages DIRECTORY PACKAGE...: their files, and those of what they need, as the directory; nothing is installed.
unpack_packages() {
	local directory package
	directory=$(mktemp -d "$1.XXXXXX")
	(cd "$directory" && { fetch_packages "${@:2}" || { apt update && fetch_packages "${@:2}"; } })
	for package in "$directory"/*.deb; do dpkg -x "$package" "$directory/root"; done
	rm -rf "$1"
	mv "$directory/root" "$1"
	rm -rf "$directory"
}

# apt_files: the configured sources, one-line files first.
apt_files() {
	local file
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
		[[ -s $file ]] && printf '%s\n' "$file"
	done
	return 0
}

# one_line_source SUITE NEW <FILE: the first entry of SUITE, changed to suite NEW (same URI, same options).
one_line_source() {
	awk -v suite="$1" -v new="$2" '
		$1 == "deb" {
			field = 2
			if ($2 ~ /^\[/) { while (field < NF && $field !~ /\]$/) field++; field++ }
			if ($(field + 1) != suite) next
			$(field + 1) = new
			print; exit
		}'
}

# deb822_source SUITE NEW <FILE: does the same for stanzas.
deb822_source() {
	awk -v suite="$1" -v new="$2" 'BEGIN { RS = ""; FS = "\n" }
		{
			found = 0; binary = 0; off = 0; out = ""; skip = 0
			for (i = 1; i <= NF; i++) {
				if ($i ~ /^#/) continue
				if ($i !~ /^[ \t]/) skip = 0
				if (tolower($i) ~ /^enabled:[ \t]*no/) off = 1
				if (tolower($i) ~ /^types:/) { if ($i ~ /deb([ \t]|$)/) binary = 1; $i = "Types: deb" }
				if (tolower($i) ~ /^suites:/) {
					words = split(substr($i, 8), word, /[ \t]+/)
					for (w = 1; w <= words; w++) if (word[w] == suite) found = 1
					$i = "Suites: " new; skip = 1
				} else if (skip) continue
				out = out $i "\n"
			}
			if (found && binary && !off) { printf "%s", out; exit }
		}'
}

# derived_source SUITE NEW FILE: writes FILE.list or FILE.sources for the suite NEW, in the format of this machine's first
# source of SUITE; prints that file's name. Fails if no source has SUITE.
derived_source() {
	local file entry ending
	while IFS= read -r file; do
		case $file in
		*.sources) entry=$(deb822_source "$1" "$2" <"$file") ending=sources ;;
		*) entry=$(one_line_source "$1" "$2" <"$file") ending=list ;;
		esac
		if [[ -n $entry ]]; then
			printf '%s\n' "$entry" >"$3.$ending"
			printf '%s\n' "$3.$ending"
			return 0
		fi
	done < <(apt_files)
	return 1
}
