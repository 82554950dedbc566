# SPDX-License-Identifier: Apache-2.0
# Sets up a scenario with a control plane: scripts/lib/scenario.sh and cluster.sh. Sourced first.
# shellcheck shell=bash

# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/e2e/lib/cluster.sh
source "$SLUICE_ROOT/tests/e2e/lib/cluster.sh"
trap 'cluster_down' EXIT
