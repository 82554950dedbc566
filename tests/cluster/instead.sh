#!/bin/bash
# k8s/deploy and k8s/deploy/uninstall unchanged, on real kubelets: instead of kube-proxy the image of scripts/package becomes
# ready, with the specified mounts and rights, and serves pods and external clients; an upgrade loses no connection; the
# clean-up leaves nothing on any node. SEM-55, SEM-75, REL-54.
set -euo pipefail
# shellcheck source=tests/cluster/lib/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/nodes.sh"

DEPLOY=$SLUICE_ROOT/k8s/deploy

# uids: the uids of the agents' pods, to distinguish them from their successors.
uids() { kubectl -n kube-system get pods -l app.kubernetes.io/name=sluice -o jsonpath='{.items[*].metadata.uid}'; }

installed() {
	local node
	kubectl apply -k "$DEPLOY"
	rolled_out sluice
	for node in "${NODES[@]}"; do
		[[ $(lab_in "$node" cat /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait) == 3600 ]] ||
			die "SEM-55: conntrack's settings are not written on $node"
		[[ -s $(find /proc/"${NODE_PIDS[$node]}"/root/var/lib/sluice -name api-servers) ]] || die "the API servers' addresses are not kept on $node"
	done
}

# upgraded: checks that every pod has been replaced and that no client was affected.
upgraded() {
	local before uid
	before=$(uids)
	web_fresh
	web_clients "before the upgrade"
	kubectl -n kube-system rollout restart daemonset/sluice
	rolled_out sluice
	for uid in $before; do [[ $(uids) != *"$uid"* ]] || die "the pod $uid was not replaced"; done
	switch_passes 6 "upgraded"
	switch_ends
}

removed() {
	local node
	for node in "${NODES[@]}"; do
		[[ $(left "$node") == */sys/fs/bpf/sluice*lb_*lb_connect4* ]] || die "on $node there is: $(left "$node")"
	done
	kubectl delete -k "$DEPLOY"
	kubectl apply -k "$DEPLOY/uninstall"
	rolled_out sluice-uninstall
	nothing_left
	kubectl delete -k "$DEPLOY/uninstall" --timeout=60s
	! lab_ask pod/web-node-a tcp 10.96.0.80 80 >/dev/null 2>&1 || die "a service is served, and nobody is there"
	printf 'SEM-75: nothing is left on %s\n' "${NODES[*]}"
}

nodes_up instead
kubeadm_config iptables
for node in "${NODES[@]}"; do node_joins "$node"; done
installed
web
web_answers "in place of kube-proxy"
upgraded
removed
