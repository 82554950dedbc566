#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# The same objects must lead to the same replies: the real kube-proxy (nftables) and Sluice, each on its own node in equal
# labs, follow one API server, and clients of both make the same requests after each of a seeded random sequence of changes.
# SEM-20 to 40. SLUICE_SEED and SLUICE_STEPS select another sequence; --long draws a random one.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"
trap 'clean_up' EXIT

STEPS=${SLUICE_LONG:+500} STEPS=${SLUICE_STEPS:-${STEPS:-40}}
SEED=$(seed 20)
OTHER='' OTHER_DIR='' OTHER_CGROUP='' OTHER_PINS=''

# other COMMAND...: runs COMMAND in kube-proxy's lab.
other() { LAB=$OTHER LAB_DIR=$OTHER_DIR LAB_CGROUP=$OTHER_CGROUP LAB_PINS=$OTHER_PINS "$@"; }

clean_up() {
	cluster_down
	[[ -z $OTHER ]] || other lab_down
}

# servers: starts the endpoints' servers in the current lab.
servers() {
	local who
	for who in node pod "${LAB_WORKERS[@]}"; do
		lab_start "$who" "server-$who.log" python3 "$E2E/prober.py" serve 8080,8081 5353,5354
	done
}

# Both refuse by ICMP, which the kernel rate-limits; suppressed errors would look like a drop.
talkative() {
	lab_in node bash -c 'cd /proc/sys/net && echo 0 | tee ipv4/icmp_ratelimit ipv6/icmp/ratelimit &&
		echo 100000 | tee ipv4/icmp_msgs_per_sec ipv4/icmp_msgs_burst' >/dev/null
}

# A link from the other lab's node to the API server, separate from everything that is compared.
link_control() {
	ip -n "$LAB-control" link add to-other type veth peer name control0 netns "$OTHER-node"
	ip -n "$LAB-control" address add 192.168.77.1/30 dev to-other
	ip -n "$LAB-control" link set to-other up
	ip -n "$OTHER-node" address add 192.168.77.2/30 dev control0
	ip -n "$OTHER-node" link set control0 up
}

kube_proxy() {
	kubeconfig "$CLUSTER/kube-proxy.kubeconfig" https://192.168.77.1:6443 "certificate kube-proxy"
	cat >"$CLUSTER/kube-proxy.conf" <<-YAML
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		clientConnection: {kubeconfig: $CLUSTER/kube-proxy.kubeconfig}
		mode: nftables
		nftables: {minSyncPeriod: 10ms, syncPeriod: 30s, masqueradeBit: 14}
		hostnameOverride: node
		detectLocalMode: NodeCIDR
		nodePortAddresses: [primary]
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
		healthzBindAddress: 127.0.0.1:10256
		metricsBindAddress: 127.0.0.1:10249
	YAML
	other lab_start node kube-proxy.log "$PARTNERS/kube-proxy" --config "$CLUSTER/kube-proxy.conf"
	lab_wait 30 other lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz || {
		tail -n 30 "$OTHER_DIR/kube-proxy.log"
		die "kube-proxy does not start; the end of its log is above."
	}
}

lab_up proxy
OTHER=$LAB OTHER_DIR=$LAB_DIR OTHER_CGROUP=$LAB_CGROUP OTHER_PINS=$LAB_PINS
NAMES_OF_SERVER=IP:192.168.77.1 cluster_up sluice
link_control
servers
other servers
talkative
other talkative
kube_proxy
cluster_publish_zone zone-a
# The pod's device is served, because the socket hooks leave services with source ranges to the packet path.
cluster_agent --pod-devices pod0
lab_in control env E2E_KUBE="$CLUSTER" E2E_CGROUPS="$(cgroup_root)" python3 "$E2E/differ.py" "$SEED" "$STEPS" "$OTHER" "$LAB"
