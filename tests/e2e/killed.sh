#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# REL-38: the agent is killed at random moments while objects change and traffic flows: no request fails, and after the last
# start the maps equal those of a clean start.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

KILLS=${SLUICE_LONG:+200} KILLS=${KILLS:-20}
SEED=$(seed 38)

cluster_up killed
kube apply <<-YAML
	apiVersion: v1
	kind: Service
	metadata: {name: web, namespace: default}
	spec:
	  selector: {app: web}
	  type: NodePort
	  ipFamilyPolicy: RequireDualStack
	  clusterIPs: [10.96.0.80, "fd00:10:96::80"]
	  clusterIP: 10.96.0.80
	  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]
	---
	apiVersion: v1
	kind: Service
	metadata: {name: by-hand, namespace: default}
	spec:
	  clusterIP: 10.96.0.91
	  ports: [{name: http, port: 80, targetPort: 8080}]
YAML
cluster_pods
cluster_agent
lab_wait 10 eval '[[ $(family4 default/web:) == *10.244.4.10* ]]' || die "the pods never came"
printf 'seed %d\n' "$SEED"

lab_start control churn.log env E2E_KUBE="$CLUSTER" python3 "$E2E/churn.py" "$SEED" "$LAB_DIR/churn-ends"
churn=$LAB_STARTED
lab_traffic pod 10.96.0.80 80
lab_traffic node fd00:10:96::80 80
lab_traffic client 10.0.0.10 30080
RANDOM=$((SEED & 32767))
# A start takes a few hundred milliseconds: a third of the kills happen during it, a third during the first writing, and a
# third later.
for ((kill = 1; kill <= KILLS; kill++)); do
	sleep "0.$(printf '%03d' $((RANDOM % (kill % 3 == 0 ? 1000 : kill % 3 == 1 ? 100 : 400))))"
	lab_stop "$LAB_AGENT" KILL || true
	cluster_agent_starts
done
lab_wait 30 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "the agent is not ready after the last kill"
touch "$LAB_DIR/churn-ends"
wait "$churn" || die "the changes ended badly: $(tail -n 5 "$LAB_DIR/churn.log")"
cat "$LAB_DIR/churn.log"
lab_traffic_ends

# The controller and the agent are done when nothing has changed for a second.
settled=''
for ((i = 0; i < 30; i++)); do
	lab_maps >"$LAB_DIR/after.new"
	! cmp -s "$LAB_DIR/after.new" "$LAB_DIR/after" || { settled=1 && break; }
	mv "$LAB_DIR/after.new" "$LAB_DIR/after"
	sleep 1
done
[[ -n $settled ]] || die "the maps never come to rest"
lab_stop "$LAB_AGENT" TERM
rm -rf "$LAB_PINS"
cluster_agent
lab_maps >"$LAB_DIR/clean"
diff "$LAB_DIR/after" "$LAB_DIR/clean" || die "after $KILLS kills the maps differ from a clean start's (seed $SEED)"
printf '%d kills: the maps equal a clean start'\''s, %d lines\n' "$KILLS" "$(wc -l <"$LAB_DIR/clean")"
