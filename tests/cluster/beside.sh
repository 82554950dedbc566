#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# k8s/overlays/beside unchanged, with a real kube-proxy and real kubelets: Sluice becomes ready at its own ports and serves only
# the labelled Service. kube-proxy serves all others before, during and after that. SEM-75.
set -euo pipefail
# shellcheck source=tests/cluster/lib/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/nodes.sh"

OVERLAY=$SLUICE_ROOT/k8s/overlays/beside

# labelled_service: creates a service whose label assigns it to Sluice.
labelled_service() {
	web_of labelled 90 TCP 80 8080 30090 | kubectl apply -f - >/dev/null
	kubectl label service labelled service.kubernetes.io/service-proxy-name=sluice >/dev/null
}

# labelled_reached: checks that pods and the external client reach the service.
labelled_reached() {
	local each
	for each in "pod/web-node-a tcp 10.96.0.90 80" "pod/web-node-b tcp fd00:10:96::90 80" "client tcp 10.0.0.11 30090" "client tcp fd00:10::12 30090"; do
		# shellcheck disable=SC2086  # who, protocol, address and port
		lab_wait 5 web_reached $each || die "$each: $(web_backends $each)"
	done
	printf 'the labelled service is reached by ClusterIP and node port\n'
}

# served NODE: prints the services of the node's agent.
served() {
	local pod
	pod=$(kubectl -n kube-system get pods -l app.kubernetes.io/name=sluice --field-selector "spec.nodeName=$1" -o jsonpath='{.items[0].metadata.name}')
	kubectl -n kube-system exec "$pod" -- /usr/bin/sluice services -o json | jq -r '[.[].service] | unique | join(" ")'
}

nodes_up beside
kube_proxy_image
kubeadm_config iptables
for node in "${NODES[@]}"; do node_joins "$node"; done
kubectl apply -f "$SLUICE_ROOT/tests/package/lib/kubeadm.yaml"
rolled_out kube-proxy
web
web_answers "kube-proxy"
web_fresh
web_clients "kube-proxy"
labelled_service
! lab_ask pod/web-node-a tcp 10.96.0.90 80 >/dev/null 2>&1 || die "kube-proxy serves the service that the label assigns to Sluice"
kubectl apply -k "$OVERLAY"
rolled_out sluice
labelled_reached
web_answers "Sluice beside kube-proxy"
for node in "${NODES[@]}"; do
	[[ $(served "$node") == default/labelled ]] || die "$node: Sluice serves $(served "$node")"
done
kubectl delete -k "$OVERLAY"
kubectl apply -k "$SLUICE_ROOT/k8s/deploy/uninstall"
rolled_out sluice-uninstall
nothing_left
web_answers "kube-proxy alone"
switch_passes 6 "kube-proxy alone"
switch_ends
