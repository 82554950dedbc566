# SPDX-License-Identifier: Apache-2.0
# The preamble of a shell scenario: the lab (netlab.sh), root, and a cleanup however the script ends. Sourced first.
# shellcheck shell=bash

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/lib/netlab.sh
source "$SLUICE_ROOT/scripts/lib/netlab.sh"
need_root
trap 'lab_down' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# seed DEFAULT: the seed of a random test. SLUICE_SEED repeats one, --long draws a new one, and the short form always uses
# DEFAULT, so that a failure is caused by the tested change.
seed() {
	local drawn=${SLUICE_LONG:+$((RANDOM * 32768 + RANDOM))}
	printf '%d\n' "${SLUICE_SEED:-${drawn:-$1}}"
}
