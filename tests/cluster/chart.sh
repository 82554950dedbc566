#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Helm installs the chart on real kubelets, in a cluster that never had kube-proxy, with a start-up taint: a pod waits until the
# agent has removed the taint, on an existing node and on one that joins; helm uninstall cleans up the nodes. Then
# k8s/overlays/stand-alone unchanged, as a static pod of one node, serves the API server's objects from files. SEM-63, SEM-75.
set -euo pipefail
# shellcheck source=tests/cluster/lib/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/nodes.sh"

TAINT=sluice.lb/starting
TAINTED="registerWithTaints: [{key: $TAINT, effect: NoSchedule}]"

helm() { lab_in control env HOME="$LAB_DIR" KUBECONFIG="$CLUSTER/admin.conf" "$HELM/helm" --namespace kube-system "$@" >>"$LAB_DIR/helm.log" 2>&1 || die "helm $*: $(tail -n 3 "$LAB_DIR/helm.log")"; }
taints() { kubectl get node "$1" -o jsonpath='{.spec.taints[*].key}'; }
untainted() { [[ -z $(taints "$1") ]]; }

# stand_alone: starts the static pod on node-a, with the objects of the API server; the client's route to the IPv4 addresses of
# load balancers leads to node-a.
stand_alone() {
	local each
	kubectl get services,endpointslices,nodes -o json |
		lab_in node-a bash -c 'mkdir -p /etc/sluice && cat >/etc/sluice/objects.json'
	cp "$SLUICE_ROOT/k8s/overlays/stand-alone/sluice.yaml" "$STATIC_PODS"
	lab_wait 60 kubectl -n kube-system get pod sluice-node-a || die "the kubelet does not start the static pod"
	kubectl -n kube-system wait --for=condition=Ready pod/sluice-node-a --timeout=120s || die "the static pod does not become ready"
	for each in "tcp 203.0.113.80 80" "udp 203.0.113.53 53" "tcp 10.0.0.11 30080"; do
		# shellcheck disable=SC2086  # protocol, address and port
		lab_wait 5 web_reached client $each || die "stand-alone: $each: $(web_backends client $each)"
	done
	printf 'the stand-alone balancer serves load-balancer addresses and node ports\n'
}

# balancer_removed: removes the balancer as docs/guides/stand-alone.md describes.
balancer_removed() {
	rm "$STATIC_PODS/sluice.yaml"
	cp "$SLUICE_ROOT/k8s/overlays/stand-alone/sluice-uninstall.yaml" "$STATIC_PODS"
	lab_wait 60 kubectl -n kube-system get pod sluice-uninstall-node-a || die "the kubelet does not start the clean-up"
	kubectl -n kube-system wait --for=condition=Ready pod/sluice-uninstall-node-a --timeout=120s || die "the clean-up does not succeed"
	nothing_left
}

nodes_up chart
STATIC_PODS=$LAB_DIR/static-pods
mkdir "$STATIC_PODS"
HELM=${HELM:-$("$SLUICE_ROOT/scripts/lib/helm")}
node_joins node-a "$TAINTED" "staticPodPath: $STATIC_PODS"
[[ $(taints node-a) == *$TAINT* ]] || die "node-a has the taints '$(taints node-a)'"
web_pod node-a | kubectl apply -f - >/dev/null
kubectl wait pod/web-node-a --timeout=20s \
	--for='jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable' || die "a pod starts before Sluice"
helm upgrade --install sluice "$SLUICE_ROOT/k8s/chart" --set "agent.apiServers={$API}" --set "agent.startupTaint=$TAINT"
rolled_out sluice
lab_wait 20 untainted node-a || die "SEM-63: node-a still has the taints '$(taints node-a)'"
node_joins node-b "$TAINTED"
lab_wait 30 untainted node-b || die "SEM-63: node-b still has the taints '$(taints node-b)'"
printf 'SEM-63: the start-up taint is removed from an existing node, and from one that joins\n'
rolled_out sluice
web
web_answers "the chart"
helm uninstall sluice
rolled_out sluice-uninstall
nothing_left
kubectl -n kube-system delete daemonset sluice-uninstall --timeout=60s
stand_alone
balancer_removed
