# What a shell scenario begins with: the lab (netlab.sh) at hand, root, and all of it gone however the script ends. Sourced first.
# shellcheck shell=bash

# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/lib/netlab.sh
source "$SLUICE_ROOT/scripts/lib/netlab.sh"
need_root
trap 'lab_down' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# seed DEFAULT: of a random test. SLUICE_SEED replays one, --long draws one, and the short form always plays the same, so that
# it fails of the change that it is run for.
seed() {
	local drawn=${SLUICE_LONG:+$((RANDOM * 32768 + RANDOM))}
	printf '%d\n' "${SLUICE_SEED:-${drawn:-$1}}"
}
