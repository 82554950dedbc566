# How bench/run and its parts write results down: one JSON object a line in $RESULTS/records.jsonl. Sourced after common.sh.
# shellcheck shell=bash

# record PART KEY=VALUE...: one line of results; a value that reads as JSON is taken as such.
record() { python3 "$SLUICE_ROOT/bench/lib/measure.py" record "$@" >>"$RESULTS/records.jsonl"; }

# skipped PART REASON: said, and kept for the report.
skipped() {
	say "$1: skipped: $2"
	record "$1" skipped="$2"
}
