#!/bin/bash
# The chart installed by Helm on real kubelets, in a cluster that never had kube-proxy, with a start-up taint: a pod waits
# until the agent has removed the taint, on existing nodes and on one that joins; helm uninstall cleans up the nodes. SEM-63,
# SEM-75.
set -euo pipefail
# shellcheck source=tests/cluster/lib/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/nodes.sh"

TAINT=sluice.lb/starting
TAINTED="registerWithTaints: [{key: $TAINT, effect: NoSchedule}]"

helm() { lab_in control env HOME="$LAB_DIR" KUBECONFIG="$CLUSTER/admin.conf" "$HELM/helm" --namespace kube-system "$@" >>"$LAB_DIR/helm.log" 2>&1 || die "helm $*: $(tail -n 3 "$LAB_DIR/helm.log")"; }
taints() { kubectl get node "$1" -o jsonpath='{.spec.taints[*].key}'; }
untainted() { [[ -z $(taints "$1") ]]; }

nodes_up chart
HELM=${HELM:-$("$SLUICE_ROOT/scripts/lib/helm")}
node_joins node-a "$TAINTED"
[[ $(taints node-a) == *$TAINT* ]] || die "node-a has the taints '$(taints node-a)'"
web_pod node-a | kubectl apply -f - >/dev/null
kubectl wait pod/web-node-a --timeout=20s \
	--for='jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable' || die "a pod starts before Sluice does"
helm upgrade --install sluice "$SLUICE_ROOT/k8s/chart" --set "agent.apiServers={$API}" --set "agent.startupTaint=$TAINT"
rolled_out sluice
lab_wait 20 untainted node-a || die "SEM-63: node-a keeps '$(taints node-a)'"
node_joins node-b "$TAINTED"
lab_wait 30 untainted node-b || die "SEM-63: node-b keeps '$(taints node-b)'"
printf 'SEM-63: the start-up taint goes from a node that is there, and from one that joins\n'
rolled_out sluice
web
web_answers "the chart"
helm uninstall sluice
rolled_out sluice-uninstall
nothing_left
kubectl -n kube-system delete daemonset sluice-uninstall --timeout=60s
