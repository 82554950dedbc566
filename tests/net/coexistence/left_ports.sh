#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-166: `sluice drain` to kube-proxy's rules makes a running agent leave 10256, 10249 and the health-check node ports, so that a kube-proxy that
# waits for them listens there within seconds; those that nobody takes the agent serves again, except health-check node
# ports. `drain --cancel` takes all back. Without kube-proxy's rules (`--force`) it keeps them.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=scripts/lib/kube_proxy_rules.sh
source "$SLUICE_ROOT/scripts/lib/kube_proxy_rules.sh"
# shellcheck source=tests/net/lib/ports.sh
source "$SLUICE_ROOT/tests/net/lib/ports.sh"

agent_has() { prints '"sluice"' lab_in node ss -Hltnp "sport = :$1"; }
is_free() { [[ -z $(lab_in node ss -Hltn "sport = :$1") ]]; }
has_all() { agent_has 10256 && agent_has 10249 && agent_has "$CHECKED"; }

lab_up left-ports
lab_backends
checked_service
lab_agent --xdp off
lab_wait 10 has_all || die "the agent does not listen on all of its ports"

lab_sluice drain --force --deadline 1 >"$LAB_DIR/drain" || die "drain --force: $(cat "$LAB_DIR/drain")"
sleep 3
has_all || die "an agent without a successor leaves its ports"
lab_sluice drain --cancel
printf 'without kube-proxy the agent keeps its ports\n'

kube_proxy_comes
lab_sluice drain --deadline 1 >"$LAB_DIR/drain" || die "drain: $(cat "$LAB_DIR/drain")"
for port in 10256 10249 "$CHECKED"; do lab_wait 5 is_free "$port" || die "the agent keeps port $port: $(lab_in node ss -Hltnp "sport = :$port")"; done
lab_sluice status | grep '^Without' >"$LAB_DIR/without" || true
grep -q '10256 is left to kube-proxy' "$LAB_DIR/without" || die "status does not say that the port is left: $(cat "$LAB_DIR/without")"
take_port 10256
HEALTH=$LAB_STARTED
take_port "$CHECKED"
CHECK=$LAB_STARTED
printf 'drained: %s\n' "$(<"$LAB_DIR/without")"

# Nobody takes 10249.
lab_wait 30 agent_has 10249 || die "the agent does not serve metrics again, though nobody wants the port"
! agent_has "$CHECKED" || die "the agent serves a health-check node port"
printf 'what nobody takes is served again\n'

lab_stop "$HEALTH" || true
lab_stop "$CHECK" || true
lab_sluice drain --cancel
lab_wait 10 has_all || die "after drain --cancel the agent does not listen on all of its ports: $(lab_sluice status)"
printf 'drain --cancel takes all back\n'
