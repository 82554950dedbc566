#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A kube-proxy that still runs holds 10256, 10249 and the health-check node ports (SEM-58): the agent serves packets all the
# same, says which ports it waits for, and replies on them within two seconds of the other's end. With
# --bind-address-hard-fail it refuses to start.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/net/lib/ports.sh
source "$SLUICE_ROOT/tests/net/lib/ports.sh"

NODE=10.0.0.10 NODE_PORT=30080

served() { lab_ask client tcp "$NODE" "$NODE_PORT" --count 1; }
without() { lab_sluice status -o json | jq -r .without; }
waits_for() { [[ $(without) == *"$1"* ]]; }
waits_for_nothing() { [[ $(without) != *"cannot listen"* && $(without) != *"health-check node ports"* ]]; }
healthy() { lab_in node curl -fsS -m 1 http://127.0.0.1:10256/healthz; }
metric() { lab_in node curl -sS -m 5 http://127.0.0.1:10249/metrics | sed -n "s/^sluice_ports_waiting{server=\"$1\"} //p"; }
# checked: the reply of the health-check node port, if the agent has it.
checked() { lab_in client curl -sS -m 1 "http://$NODE:$CHECKED/" | jq -e '.service == {namespace: "default", name: "checked"}'; }
metric_is() { [[ $(metric "$1") == "$2" ]]; }

lab_up busy
lab_backends
checked_service
take_port 10256
HEALTH=$LAB_STARTED
take_port 10249
METRICS=$LAB_STARTED
take_port "$CHECKED"
CHECK=$LAB_STARTED

# With --bind-address-hard-fail the agent ends before it has changed anything.
lab_launch --xdp off --bind-address-hard-fail
code=0
wait "$LAB_AGENT" || code=$?
((code == 1)) || die "--bind-address-hard-fail: exit code $code"
grep -q '^sluice: cannot listen on 127.0.0.1:10256 (Address already in use): ' "$LAB_DIR/agent.log" || die "--bind-address-hard-fail does not say why: $(cat "$LAB_DIR/agent.log")"
[[ ! -e $LAB_PINS ]] || die "--bind-address-hard-fail left pins"
printf 'refused with --bind-address-hard-fail\n'

lab_launch --xdp off
lab_wait 30 served || { cat "$LAB_DIR/agent.log" && die "no packet is served beside another that holds the ports"; }
lab_wait 10 waits_for 'cannot listen on 127.0.0.1:10256: Address already in use' || die "status does not name the health port: $(without)"
waits_for 'cannot listen on 127.0.0.1:10249: Address already in use' || die "status does not name the metrics port: $(without)"
lab_wait 10 waits_for 'health-check node ports are taken' || die "status does not name the health-check node port: $(without)"
[[ $(grep -c 'waits for the port' "$LAB_DIR/agent.log") == 2 ]] || die "the log does not say once for each port that it is waited for"
printf 'served while another holds the ports; status: %s\n' "$(without)"

lab_stop "$METRICS" || true
lab_wait 3 metric_is health 1 || die "the metrics do not say that the health port is waited for: $(metric health)"
metric_is metrics 0 || die "the metrics say that their own port is waited for"
metric_is health-check 2 || metric_is health-check 1 || die "the metrics do not say that a health-check node port is waited for"

# A second until the next attempt, and lab_wait may wait up to a second less than its argument.
lab_stop "$HEALTH" || true
lab_wait 3 healthy || die "healthz does not answer within two seconds"
metric_is health 0 || die "the metrics say that the health port is waited for"
! checked >/dev/null 2>&1 || die "a health-check node port that another holds answers"
grep -q "its health-check node port $CHECKED of .*: Address already in use" "$LAB_DIR/agent.log" ||
	die "the log does not name the health-check node port"
lab_stop "$CHECK" || true
lab_wait 3 checked || die "SEM-58: the health-check node port does not answer within two seconds"
lab_wait 3 metric_is health-check 0 || die "the metrics say that the health-check node port is waited for"
lab_wait 10 waits_for_nothing || die "status still names ports: $(without)"
printf 'healthz, metrics and the health-check node port answer once the other is gone\n'
