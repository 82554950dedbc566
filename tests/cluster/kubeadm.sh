#!/bin/bash
# k8s/overlays/kubeadm unchanged: kubeadm's DaemonSet runs the real kube-proxy, then Sluice's image called as kube-proxy,
# then kube-proxy again, after k8s/overlays/kubeadm/uninstall has cleaned up; with long and new connections, of which none is
# lost. REL-84, SEM-68, SEM-74, SEM-75.
set -euo pipefail
# shellcheck source=tests/cluster/lib/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/nodes.sh"

OVERLAY=$SLUICE_ROOT/k8s/overlays/kubeadm

# on_nodes COMMAND...: runs COMMAND in the pod of kubeadm's DaemonSet on each node.
on_nodes() {
	local pod
	for pod in $(kubectl -n kube-system get pods -l k8s-app=kube-proxy -o jsonpath='{.items[*].metadata.name}'); do
		kubectl -n kube-system exec "$pod" -- "$@" || die "$pod: $*"
	done
}

# kube_proxy_rules NODE: the number of kube-proxy's iptables rules, in both families.
kube_proxy_rules() { lab_in "$1" bash -c 'iptables-save; ip6tables-save' | grep -c -- '-A KUBE-SVC-'; }

kube_proxy_serves() {
	kubectl apply -f "$SLUICE_ROOT/tests/package/lib/kubeadm.yaml"
	rolled_out kube-proxy
	web
	web_answers "kube-proxy"
	for node in "${NODES[@]}"; do
		(($(kube_proxy_rules "$node") > 0)) || die "$node: kube-proxy has no rules"
		[[ -z $(left "$node") ]] || die "$node: $(left "$node")"
	done
}

sluice_serves() {
	local node
	kubectl -n kube-system patch daemonset kube-proxy --patch-file "$OVERLAY/kubeproxydaemonset+strategic.yaml"
	rolled_out kube-proxy
	for node in "${NODES[@]}"; do
		lab_wait 60 lab_in "$node" curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "$node: Sluice does not serve"
	done
	on_nodes /usr/bin/sluice cleanup --kube-proxy >"$LAB_DIR/cleanup.log"
	for node in "${NODES[@]}"; do
		[[ $(kube_proxy_rules "$node") == 0 ]] || die "$node: rules of kube-proxy are left"
	done
	web_answers "Sluice as kube-proxy"
	switch_live "Sluice as kube-proxy"
}

kube_proxy_serves_again() {
	kubectl -n kube-system rollout undo daemonset kube-proxy
	rolled_out kube-proxy
	kubectl apply -k "$OVERLAY/uninstall"
	rolled_out sluice-uninstall
	kubectl delete -k "$OVERLAY/uninstall" --timeout=60s
	nothing_left
	web_answers "kube-proxy again"
	switch_passes 8 "kube-proxy again"
}

nodes_up kubeadm
kube_proxy_image
kubeadm_config
for node in "${NODES[@]}"; do node_joins "$node"; done
kube_proxy_serves
web_clients "begun with kube-proxy"
sluice_serves
web_clients "begun with Sluice"
kube_proxy_serves_again
switch_ends
