#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# SEM-81 with a real API server: services and endpoints that do not fit make the tables larger within the half minute over
# which nodes spread that; the agent stays the same process, is ready as soon as it serves, and no request fails.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

AGENT_SIZES=(--max-frontends 64 --max-services 32 --max-backends 128 --max-slots 256 --max-flows 16384 --max-unassured 16384)
SERVICES=100

ready() { lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz; }

load_up growing
agent=$LAB_AGENT

load create "$SERVICES" >/dev/null
kube slices big 10 100
# A table that was large enough so far may be the next one that is full.
WITHIN=100 becomes "SEM-81: service ports, two families each" $((2 * SERVICES)) programmed
WITHIN=100 becomes "SEM-81: endpoints of one service" 1000 count
grep -q 'recreating the maps' "$LAB_DIR/agent.log" || die "nothing grew"
kill -0 "$agent" || die "the agent has ended"
lab_wait 5 ready || die "the agent is not ready"
lab_traffic_ends
