#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# k8s/deploy and k8s/deploy/uninstall unchanged, on real kubelets: in place of kube-proxy, the image of scripts/package becomes
# ready with the specified mounts and rights, and serves pods and external clients. An upgrade to k8s/overlays/monitoring loses
# no connection. A real Prometheus scrapes the agents by its PodMonitor. k8s/overlays/textfile reports on every node whether an
# agent runs. The clean-up leaves nothing on any node. SEM-55, SEM-75, REL-54, REL-97, REL-98.
set -euo pipefail
# shellcheck source=tests/cluster/lib/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/nodes.sh"

DEPLOY=$SLUICE_ROOT/k8s/deploy
OVERLAYS=$SLUICE_ROOT/k8s/overlays
TEXTFILE=/var/lib/node_exporter/textfile_collector/sluice.prom
PROMETHEUS=http://127.0.0.1:9090

# uids: prints the uids of the agents' pods, to distinguish them from their successors.
uids() { kubectl -n kube-system get pods -l app.kubernetes.io/name=sluice -o jsonpath='{.items[*].metadata.uid}'; }

installed() {
	local node
	kubectl apply -k "$DEPLOY"
	rolled_out sluice
	for node in "${NODES[@]}"; do
		[[ $(lab_in "$node" cat /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait) == 3600 ]] ||
			die "SEM-55: the settings of conntrack are not written on $node"
		[[ -s $(find /proc/"${NODE_PIDS[$node]}"/root/var/lib/sluice -name api-servers) ]] || die "the API servers' addresses are not stored on $node"
	done
}

# absent: prints the values of sluice_agent_absent in the nodes' textfiles.
absent() {
	local node
	for node in "${NODES[@]}"; do lab_in "$node" awk '/^sluice_agent_absent/ { print $NF }' "$TEXTFILE"; done | sort | paste -sd ' '
}

textfile() {
	kubectl apply -k "$OVERLAYS/textfile"
	rolled_out sluice-textfile
	WITHIN=60 becomes "REL-97: agents run: sluice_agent_absent" "0 0" absent
}

no_textfile() { ! lab_in "$1" test -e "$TEXTFILE"; }

textfile_ends() {
	local node
	kubectl delete -k "$OVERLAYS/textfile" --timeout=60s
	for node in "${NODES[@]}"; do lab_wait 30 no_textfile "$node" || die "REL-97: the textfile is left on $node"; done
}

# upgraded: checks that every pod has been replaced and that no client was affected.
upgraded() {
	local before uid
	before=$(uids)
	web_fresh
	web_clients "before the upgrade"
	kubectl apply -k "$OVERLAYS/monitoring"
	rolled_out sluice
	for uid in $before; do [[ $(uids) != *"$uid"* ]] || die "the pod $uid was not replaced"; done
	switch_passes 6 "upgraded"
	switch_ends
}

# established NAME: `kubectl wait` fails as long as a definition's conditions are null.
established() {
	[[ $(kubectl get "customresourcedefinition/$1.monitoring.coreos.com" \
		-o jsonpath='{.status.conditions[?(@.type=="Established")].status}') == True ]]
}

definitions() {
	local name
	kubectl create -f "$MONITORING/definitions" >/dev/null
	for name in podmonitors prometheusrules; do lab_wait 30 established "$name" || die "the definition of $name is not established"; done
}

query() { lab_in control curl -fsS -m 5 -G --data-urlencode "query=$1" "$PROMETHEUS/api/v1/query" | jq -r "$2"; }
nodes_scraped() { query 'up{job="kube-proxy"} == 1' '[.data.result[].metric.node] | sort | join(" ")'; }
services_seen() { query 'count(sluice_map_entries{map="lb_services"} > 0)' '.data.result[].value[1]'; }

# scraped: checks that a Prometheus configured by the PodMonitor in the API server selects and scrapes all agents.
scraped() {
	kubectl -n kube-system get podmonitor sluice -o json >"$LAB_DIR/monitor.json"
	kubectl -n kube-system get pods -o json >"$LAB_DIR/pods.json"
	python3 "$CLUSTER_LIB/scrape_config.py" "$LAB_DIR/monitor.json" "$LAB_DIR/pods.json" >"$LAB_DIR/prometheus.yaml"
	lab_start control prometheus.log "$MONITORING/prometheus" --config.file "$LAB_DIR/prometheus.yaml" \
		--storage.tsdb.path "$LAB_DIR/tsdb" --web.listen-address "${PROMETHEUS#http://}"
	lab_wait 30 lab_in control curl -fsS -m 2 "$PROMETHEUS/-/ready" || cluster_wrong prometheus
	WITHIN=60 becomes "REL-98: selected by the PodMonitor, in the job kube-proxy" "${NODES[*]}" nodes_scraped
	WITHIN=60 becomes "REL-98: agents whose metrics include services" "${#NODES[@]}" services_seen
	lab_stop "$LAB_STARTED" TERM || true
}

removed() {
	local node
	for node in "${NODES[@]}"; do
		[[ $(left "$node") == */sys/fs/bpf/sluice*lb_*lb_connect4* ]] || die "on $node the pins or programs are not complete: $(left "$node")"
	done
	kubectl delete -k "$OVERLAYS/monitoring"
	WITHIN=60 becomes "REL-97: no agent runs: sluice_agent_absent" "1 1" absent
	kubectl apply -k "$DEPLOY/uninstall"
	rolled_out sluice-uninstall
	nothing_left
	WITHIN=60 becomes "REL-97: nothing is pinned: sluice_agent_absent" "0 0" absent
	kubectl delete -k "$DEPLOY/uninstall" --timeout=60s
	! lab_ask pod/web-node-a tcp 10.96.0.80 80 >/dev/null 2>&1 || die "a service is served after the clean-up"
	printf 'SEM-75: nothing is left on %s\n' "${NODES[*]}"
}

MONITORING=${MONITORING:-$("$SLUICE_ROOT/scripts/lib/monitoring")}
nodes_up instead
kubeadm_config iptables
for node in "${NODES[@]}"; do node_joins "$node"; done
installed
textfile
web
web_answers "in place of kube-proxy"
definitions
upgraded
scraped
removed
textfile_ends
