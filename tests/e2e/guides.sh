#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/guides: runs the blocks of commands, in order (those marked `last` after the others), with the real kubectl, helm and
# kube-proxy and a real API server. tests/e2e/lib/kubelet.py stands in for missing parts (DaemonSet controller, kubelet,
# container runtime). Wrappers handle `kubectl exec`, which needs a kubelet's server, and `crictl`. Clients make requests
# throughout the migration: REL-84, SEM-74. Blocks that are not run are listed and counted.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

# Concurrent tests keep the machine's /etc.
[[ -n ${GUIDES_INSIDE:-} ]] || GUIDES_INSIDE=1 exec unshare --mount bash "$0" "$@"

GUIDES=$SLUICE_ROOT/docs/guides
KUBELET="" KUBE_PROXY_CONFIG=""
export KUBELET API LAB_PINS LAB_CGROUP PARTNERS KUBE_PROXY_CONFIG

guides_down() {
	local code=$?
	umount /etc "$LAB_DIR/etc" 2>/dev/null || true
	(exit "$code") || true
	return "$code"
}
trap 'guides_down; cluster_down' EXIT

# tools: installs the programs that the guides call in $LAB_DIR/bin.
tools() {
	mkdir "$LAB_DIR/bin"
	ln -s "$(readlink -f "$PARTNERS/kubectl")" "$LAB_DIR/bin/real-kubectl"
	ln -s "$HELM/helm" "$LAB_DIR/bin/helm"
	cat >"$LAB_DIR/bin/kubectl" <<-'SHELL'
		#!/bin/bash
		# kubectl -n kube-system exec POD -- COMMAND...: in that pod's root, with its environment and capabilities.
		[[ ${3:-} == exec ]] || exec real-kubectl "$@"
		mapfile -d '' words <"$KUBELET/$4.exec" && exec "${words[@]}" "${@:6}"
	SHELL
	cat >"$LAB_DIR/bin/crictl" <<-'SHELL'
		#!/bin/bash
		# crictl pods ... --label LABEL=NAME, crictl ps --quiet --name CONTAINER --pod POD, crictl exec POD COMMAND...: of static
		# pods, whose ids are their names.
		case $1 in
		pods) name=${*: -1} && for each in "$KUBELET/${name#*=}"-static-*.running; do [[ ! -e $each ]] || basename "$each" .running; done ;;
		ps) [[ ! -e $KUBELET/$6.running || ! $(<"$KUBELET/$6.running") =~ $4 ]] || printf '%s\n' "$6" ;;
		exec) mapfile -d '' words <"$KUBELET/$2.exec" && exec "${words[@]}" "${@:3}" ;;
		esac
	SHELL
	chmod +x "$LAB_DIR"/bin/*
	kubeconfig "$LAB_DIR/admin.yaml" "$API" "certificate admin"
}

# machine: mounts an overlay on this machine's /etc, so that writes go to the lab.
machine() {
	mkdir "$LAB_DIR/etc"
	mount -t tmpfs etc "$LAB_DIR/etc"
	mkdir "$LAB_DIR/etc/upper" "$LAB_DIR/etc/work"
	mount -t overlay -o "lowerdir=/etc,upperdir=$LAB_DIR/etc/upper,workdir=$LAB_DIR/etc/work" etc /etc
}

# loopback PORT...: a proxy to the API at loopback, as some distributions have it.
loopback() {
	local port
	for port; do lab_start node loopback.log ncat --listen --keep-open 127.0.0.1 "$port" --exec "$(command -v ncat) 10.0.0.2 6443"; done
}

kubelet() {
	KUBELET=$LAB_DIR/kubelet KUBE_PROXY_CONFIG=$CLUSTER/daemonset.conf
	mkdir -p "$KUBELET/image" "$KUBELET/state" "$LAB_PINS"
	"$SLUICE_ROOT/scripts/lib/image" "$SLUICE" "$KUBELET/image"
	lab_start node kubelet.log env "E2E_KUBE=$CLUSTER" python3 "$E2E/kubelet.py" node
	KUBELET_PID=$LAB_STARTED
}

# page NAME: runs the blocks of a page.
page() {
	python3 "$E2E/guides.py" "$GUIDES/$1.md" "$LAB_DIR/$1.sh"
	(cd "$SLUICE_ROOT" && lab_in node env "PATH=$LAB_DIR/bin:$PATH" "HOME=$LAB_DIR" "KUBECONFIG=$LAB_DIR/admin.yaml" timeout 240 \
		bash "$LAB_DIR/$1.sh") >"$LAB_DIR/$1.log" 2>&1 ||
		die "$1.md: $(tail -n 15 "$LAB_DIR/$1.log") $(tail -n 3 "$LAB_DIR/kubelet.log" "$KUBELET"/*.log)"
	grep '^──' "$LAB_DIR/$1.log"
	nothing_left "$1"
}

# function_of PAGE NAME: that function of a page.
function_of() { sed -n "/^$2() {/,/^}/p" "$GUIDES/$1.md"; }

# on_nodes_says PODS CODE EXEC: how the guides' on_nodes ends, and what it prints, if kubectl prints PODS and ends with CODE, and
# `kubectl exec POD` is EXEC.
on_nodes_says() {
	local code=0
	# shellcheck disable=SC2016  # the inner shell's
	PODS=$1 CODE=$2 EXEC=$3 bash -c "$(function_of install on_nodes)"'
		kubectl() { if [[ $3 == exec ]]; then eval "$EXEC"; else printf "$PODS" && return "$CODE"; fi; }
		on_nodes status' >"$LAB_DIR/on-nodes" 2>&1 || code=$?
	printf '%s: %s\n' "$code" "$(paste -sd ' ' "$LAB_DIR/on-nodes")"
}

# on_nodes_fails: the function reports every failure, in a shell with a user's options.
on_nodes_fails() {
	local wanted said page
	for page in migrate pods-with-proxies; do
		[[ $(function_of install on_nodes) == "$(function_of "$page" on_nodes)" ]] || die "the guides' functions on_nodes differ: $page.md"
	done
	while IFS='|' read -r pods code exec wanted; do
		said=$(on_nodes_says "$pods" "$code" "$exec")
		[[ $said == "$wanted" ]] || die "on_nodes with '$pods', $code and '$exec' ends with '$said', not '$wanted'"
	done <<-'ROWS'
		p a\nq b\n|0|echo in $4|0: a: in p b: in q
		p a\nq b\n|0|echo in $4; [[ $4 == q ]]|1: a: in p b: in q
		p a\nq b\n|0|echo in $4; [[ $4 == p ]]|1: a: in p b: in q
		|0|echo in $4|1: there are no pods of Sluice
		|1|echo in $4|1: 
	ROWS
	printf 'on_nodes: fails if there are no pods, kubectl fails, or the command fails on a node\n'
}

# tainted: adds the taint with which install.md has the kubelet register nodes, and another one.
tainted() {
	kube patch Node/node '{"spec": {"taints": [{"key": "example.com/stays", "effect": "PreferNoSchedule"},
		{"key": "sluice.lb/starting", "effect": "NoSchedule"}]}}'
}

taints() { kube get Node/node | jq -c '[.spec.taints[]?.key | select(startswith("node.kubernetes.io") | not)]'; }

# nothing_left NAME: checks that a page has removed everything that it installed.
nothing_left() {
	[[ ! -e $LAB_PINS/sluice ]] || die "$1.md leaves $(find "$LAB_PINS/sluice" | sed -n 1,5p)"
	! kube get DaemonSet/kube-system/sluice >/dev/null 2>&1 || die "$1.md leaves a DaemonSet"
	! kube get DaemonSet/kube-system/sluice-uninstall >/dev/null 2>&1 || die "$1.md leaves the clean-up's DaemonSet"
}

# kube_proxy_runs MODE: runs kube-proxy as kubeadm's DaemonSet does, on its own ports, which Sluice uses too.
kube_proxy_runs() {
	kubeconfig "$CLUSTER/kube-proxy.kubeconfig" "$API" "certificate kube-proxy"
	cat >"$KUBE_PROXY_CONFIG" <<-YAML
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		clientConnection: {kubeconfig: $CLUSTER/kube-proxy.kubeconfig}
		mode: $1
		nftables: {minSyncPeriod: 10ms, syncPeriod: 30s}
		iptables: {minSyncPeriod: 10ms, syncPeriod: 30s}
		hostnameOverride: node
		clusterCIDR: 10.244.0.0/16,fd00:10:244::/48
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
	YAML
	kube apply <"$SLUICE_ROOT/tests/package/lib/kubeadm.yaml"
	becomes "kube-proxy ($1)" "web-a web-b web-c web-pod" answers pod 10.96.0.80 80
}

# balancer: a load balancer's probes of a health-check node port, one a second; what they find is in $LAB_DIR/balancer.log.
balancer() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: balanced, namespace: default}
		spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32080, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
	YAML
	becomes "the balancer's probe" ok probe
	# shellcheck disable=SC2016  # expanded inside
	lab_start client balancer.log bash -c 'while [[ ! -e $1 ]]; do
		curl -fsS -m 1 -o "$1.page" http://10.0.0.10:32080/healthz && echo ok || echo failed
		sleep 1
	done' balancer "$LAB_DIR/balancer-ends"
	BALANCER=$LAB_STARTED
}

probe() { ! lab_in client curl -fsS -m 1 -o "$LAB_DIR/probe" http://10.0.0.10:32080/healthz || echo ok; }

# balancer_ends MODE: a balancer takes a node out after three probes that fail in a row.
balancer_ends() {
	touch "$LAB_DIR/balancer-ends"
	wait "$BALANCER" || true
	local in_a_row
	in_a_row=$(awk '/^ok/ { run = 0 } /^failed/ && ++run > most { most = run } END { print most + 0 }' "$LAB_DIR/balancer.log")
	printf 'REL-166: %s: %s probes, of which in a row failed at most: %s\n' "$1" "$(grep -c '^ok\|^failed' "$LAB_DIR/balancer.log")" "$in_a_row"
	((in_a_row < 3)) || die "a balancer takes the node out: $(cat "$LAB_DIR/balancer.log")"
	rm "$LAB_DIR"/balancer*
	kube delete Service/default/balanced
}

# busy_port_events: types and reasons of the agent's Events on the Node about busy ports.
busy_port_events() {
	kube get /api/v1/namespaces/default/events | jq -r '[.items[] | select(.reportingComponent == "sluice" and .involvedObject.kind == "Node") |
		select(.reason | test("^(FailedToStart|Started)(Metrics|ProxierHealthcheck)$")) | "\(.type) \(.reason)"] | unique | join(" ")'
}

migration() {
	kube_proxy_runs "$1"
	lab_traffic pod 10.96.0.80 80
	balancer
	page migrate
	balancer_ends "$1"
	# kube-proxy has held the agent's ports.
	becomes "SEM-77, SEM-150: Events on the Node" \
		"Normal FailedToStartMetrics Normal FailedToStartProxierHealthcheck Normal StartedMetrics Normal StartedProxierHealthcheck" busy_port_events
	lab_traffic_ends
	rm "$LAB_DIR/traffic-ends" "$LAB_DIR"/traffic-*.log
	kube delete DaemonSet/kube-system/kube-proxy
	sleep 1
	lab_in node "$PARTNERS/kube-proxy" --cleanup >>"$LAB_DIR/kube-proxy.log" 2>&1 || true
}

HELM=${HELM:-$("$SLUICE_ROOT/scripts/lib/helm")}
cluster_up guides
tools
machine
kubelet
cluster_web
cluster_pods
loopback 6443 6444 7445
WITHIN=30
on_nodes_fails
tainted
page install
becomes "SEM-63: taints of the node" '["example.com/stays"]' taints
page pods-with-proxies
for mode in nftables iptables; do migration "$mode"; done
page stand-alone
lab_stop "$KUBELET_PID" TERM || true
