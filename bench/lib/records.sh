# SPDX-License-Identifier: Apache-2.0
# How bench/run and its parts record results: one JSON object per line in $RESULTS/records.jsonl. Sourced after common.sh.
# shellcheck shell=bash

# record PART KEY=VALUE...: writes one line of results; a value that parses as JSON is written as JSON.
record() { python3 "$SLUICE_ROOT/bench/lib/measure.py" record "$@" >>"$RESULTS/records.jsonl"; }

# skipped PART REASON: prints that the part is skipped, and records it for the report.
skipped() {
	say "$1: skipped: $2"
	record "$1" skipped="$2"
}
