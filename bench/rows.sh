# SPDX-License-Identifier: Apache-2.0
# The counterpart of bench/rows.hpp for the scripts of bench/. Sourced, not run.
# shellcheck shell=bash

# keep PART SERIES UNIT [BY SIZE]: appends one record for bench/lib/report.py to the file that BENCH_RECORDS names (to none if it
# is unset): the median of the numbers on standard input, one per line, and the extremes if there are several. BY and SIZE: the
# dimension on which the value depends.
keep() {
	local by=${4:+\"by\": \"$4\", \"size\": $5, }
	sort -g | awk -v head="{\"part\": \"$1\", \"series\": \"$2\", $by\"unit\": \"$3\"" '
		{ value[NR] = $1 }
		END {
			printf "%s, \"value\": %s", head, value[int((NR + 1) / 2)]
			if (NR > 1) printf ", \"least\": %s, \"most\": %s", value[1], value[NR]
			print "}"
		}' >>"${BENCH_RECORDS:-/dev/null}"
}

# cell [DIGITS]: prints the numbers on standard input as a cell of a Markdown table: median and extremes, "117 (112–125)".
cell() {
	sort -g | awk -v digits="${1:-0}" '
		{ value[NR] = $1 }
		END {
			printf "%.*f", digits, value[int((NR + 1) / 2)]
			if (NR > 1) printf " (%.*f–%.*f)", digits, value[1], digits, value[NR]
		}'
}
