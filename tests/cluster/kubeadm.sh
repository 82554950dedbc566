#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# k8s/overlays/kubeadm unchanged: kubeadm's DaemonSet runs the real kube-proxy in its mode iptables, then Sluice's image called as kube-proxy,
# then, after k8s/overlays/kubeadm/uninstall, kube-proxy again in its mode nftables; then Sluice and kube-proxy once more. No long or new
# connection is lost. REL-84, SEM-68, SEM-74, SEM-75.
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

# kube_proxy_rules NODE: prints the number of kube-proxy's rules and tables, in any mode, of both families.
kube_proxy_rules() { lab_in "$1" bash -c 'iptables-save; ip6tables-save; nft list tables' | grep -c -e '-A KUBE-SVC-' -e ' kube-proxy$'; }

# rules_of MODE NODE: whether the node has kube-proxy's rules of that mode and of no other.
rules_of() {
	case $1 in
	iptables) lacks ' kube-proxy$' lab_in "$2" nft list tables && prints '-A KUBE-SVC-' lab_in "$2" ip6tables-save ;;
	nftables) prints 'table ip6 kube-proxy$' lab_in "$2" nft list tables && lacks '-A KUBE-SVC-' lab_in "$2" iptables-save ;;
	esac
}

# kube_proxy_serves MODE [WHEN]: checks that kube-proxy serves in that mode, and that nothing of Sluice is left.
kube_proxy_serves() {
	local node
	for node in "${NODES[@]}"; do
		lab_wait 20 rules_of "$1" "$node" || die "$node: kube-proxy has no rules of its mode $1"
		[[ -z $(left "$node") ]] || die "$node: $(left "$node")"
	done
	web_answers "${2:-kube-proxy in its mode $1}"
}

sluice_serves() {
	local node
	kubectl -n kube-system patch daemonset kube-proxy --patch-file "$OVERLAY/kubeproxydaemonset+strategic.yaml"
	rolled_out kube-proxy
	for node in "${NODES[@]}"; do
		lab_wait 60 lab_in "$node" curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "$node: Sluice does not serve"
	done
	on_nodes /usr/bin/sluice cleanup --kube-proxy >>"$LAB_DIR/cleanup.log"
	for node in "${NODES[@]}"; do
		[[ $(kube_proxy_rules "$node") == 0 ]] || die "$node: kube-proxy's rules are left"
	done
	web_answers "Sluice as kube-proxy"
	switch_live "Sluice as kube-proxy"
}

# back_to MODE: switches back to kube-proxy in that mode.
back_to() {
	kube_proxy_mode "$1"
	kubectl -n kube-system rollout undo daemonset kube-proxy
	rolled_out kube-proxy
	kubectl apply -k "$OVERLAY/uninstall"
	rolled_out sluice-uninstall
	kubectl delete -k "$OVERLAY/uninstall" --timeout=60s
	nothing_left
	kube_proxy_serves "$1" "back to kube-proxy in its mode $1"
	switch_passes 6 "back to kube-proxy in its mode $1"
}

nodes_up kubeadm
kube_proxy_image
kubeadm_config iptables
for node in "${NODES[@]}"; do node_joins "$node"; done
kubectl apply -f "$SLUICE_ROOT/tests/package/lib/kubeadm.yaml"
rolled_out kube-proxy
web
kube_proxy_serves iptables
web_fresh
web_clients "begun with kube-proxy in its mode iptables"
sluice_serves
web_clients "begun with Sluice"
back_to nftables
web_clients "begun with kube-proxy in its mode nftables"
sluice_serves
web_clients "begun with Sluice once more"
back_to iptables
switch_ends
