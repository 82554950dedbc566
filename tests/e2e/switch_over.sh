#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-74, REL-84, REL-165: from the real kube-proxy to Sluice and back, in its modes nftables and iptables (iptables-nft of this machine, --long, and
# of Debian's newest release, and iptables-legacy), without a lost connection: long-lived TCP and UDP and fresh connections, of a pod's sockets, of a guest whose packets alone are seen, of the node and
# from outside; ClusterIP, node port and load-balancer address, with source NAT and without; both families. (IPVS: the kernel here has none.)
# The second round drains beside a running agent. --long: ten rounds in each mode, by tc and once more with native XDP on the uplink.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"

ROUNDS=${SLUICE_LONG:+10}
ROUNDS=${ROUNDS:-2}
MODES=${SLUICE_MODES:-nftables iptables-newest iptables-legacy${SLUICE_LONG:+ iptables nftables-newest}}
XDP_MODES=${SLUICE_LONG:+off native}
XDP_MODES=${SLUICE_XDP:-${XDP_MODES:-off}}
# An ended flow occupies its port for a minute.
AGENT_SIZES=(--max-frontends 4096 --max-services 1024 --max-backends 8192 --max-slots 16384 --max-flows 131072 --max-unassured 16384)

# service NAME CLUSTER_IP CLUSTER_IP6 PROTOCOL PORT TARGET NODE_PORT LB LB6 POLICY: a service of type LoadBalancer with the
# pods of `web`.
service() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default}
		spec:
		  type: LoadBalancer
		  allocateLoadBalancerNodePorts: false
		  selector: {app: web}
		  clusterIP: $2
		  clusterIPs: [$2, "$3"]
		  ipFamilies: [IPv4, IPv6]
		  ipFamilyPolicy: RequireDualStack
		  externalTrafficPolicy: ${10}
		  ports: [{name: port, protocol: $4, port: $5, targetPort: $6, nodePort: $7}]
	YAML
	kube patch "Service/$1" --status "{\"status\": {\"loadBalancer\": {\"ingress\": [{\"ip\": \"$8\"}, {\"ip\": \"$9\"}]}}}"
}

services() {
	service web 10.96.0.80 fd00:10:96::80 TCP 80 8080 30080 203.0.113.80 2001:db8:113::80 Cluster
	service here 10.96.0.81 fd00:10:96::81 TCP 80 8080 30081 203.0.113.81 2001:db8:113::81 Local
	service dns 10.96.0.10 fd00:10:96::10 UDP 53 5353 30053 203.0.113.53 2001:db8:113::53 Cluster
}

# begin WHEN: opens long connections of every kind, which must all be open at the end.
begin() {
	local who each first=${#SWITCH_CLIENTS[@]}
	for who in pod guest node; do
		for each in "tcp 10.96.0.80 80" "tcp fd00:10:96::80 80" "udp 10.96.0.10 53" "udp fd00:10:96::10 53"; do
			# shellcheck disable=SC2086  # protocol, address and port
			switch_client "$who" keep $each
		done
	done
	for each in "tcp 10.0.0.10 30080" "tcp fd00:10::10 30080" "tcp 203.0.113.80 80" "tcp 2001:db8:113::80 80" \
		"tcp 10.0.0.10 30081" "tcp fd00:10::10 30081" "tcp 203.0.113.81 80" \
		"udp 10.0.0.10 30053" "udp fd00:10::10 30053" "udp 203.0.113.53 53" "udp 10.96.0.10 53"; do
		# shellcheck disable=SC2086
		switch_client client keep $each
	done
	switch_open "$1" "$first"
}

begin_fresh() {
	local who each
	for who in pod guest node client; do
		switch_client "$who" fresh tcp 10.96.0.80 80
		switch_client "$who" fresh tcp fd00:10:96::80 80
	done
	for each in "tcp 10.0.0.10 30080" "tcp 203.0.113.81 80" "udp fd00:10:96::10 53" "udp 10.0.0.10 30053"; do
		# shellcheck disable=SC2086
		switch_client client fresh $each
	done
	switch_client pod fresh udp 10.96.0.10 53
	switch_client guest fresh udp 10.96.0.10 53
}

kube_proxy_comes() {
	TOOLS=$(cluster_iptables "$MODE")
	cluster_kube_proxy "$(proxy_mode "$MODE")" "$TOOLS"
	lab_wait 30 kube_proxy_serves || die "kube-proxy's rules do not come: $(tail -n 5 "$LAB_DIR/kube-proxy.log")"
}

# in_mode COMMAND...: on the node, with kube-proxy's own iptables and nft: others may not understand what these write.
in_mode() { lab_in node env "PATH=$TOOLS:$PATH" "$@"; }

# kube_proxy_serves: checks the rules of both families, which are written one after the other, well after kube-proxy first
# reports healthy.
kube_proxy_serves() {
	if [[ $MODE == nftables* ]]; then
		prints '10.96.0.10 ' in_mode nft list map ip kube-proxy service-ips &&
			prints 'fd00:10:96::10 ' in_mode nft list map ip6 kube-proxy service-ips
	else
		prints '-d 10.96.0.10/32' in_mode iptables-save -t nat && prints '-d fd00:10:96::10/128' in_mode ip6tables-save -t nat
	fi
}

kube_proxy_goes() {
	lab_stop "$KUBE_PROXY" || true
	lab_sluice cleanup --kube-proxy >"$LAB_DIR/cleanup" || die "kube-proxy's rules are left: $(cat "$LAB_DIR/cleanup")"
}

# there WHEN ROUND: changes to Sluice. Clients that connect under Sluice are started in the first round, and last through all
# rounds.
there() {
	cluster_agent --pod-devices pod
	switch_passes 2 "$1, Sluice beside kube-proxy"
	kube_proxy_goes
	switch_passes 8 "$1, kube-proxy gone"
	(($2 == 1)) || return 0
	begin "$1, begun with Sluice"
	xdp_is_used "$1"
}

# xdp_is_used WHEN: checks that XDP carries flows opened since the agent started.
xdp_is_used() {
	local packets
	packets=$(lab_sluice status -o json | jq .outcomes.flow_xdp)
	[[ $AGENT_XDP != native ]] || ((packets > 0)) || die "$1: XDP carries nothing: $(lab_sluice status)"
}

# back WHEN: changes back; the agent ends first, and `drain` removes everything.
back() {
	kube_proxy_comes
	lab_stop "$LAB_AGENT" || die "the agent ended badly: $(tail -n 20 "$LAB_DIR/agent.log")"
	lab_sluice drain --deadline 20 | tee "$LAB_DIR/drain"
	grep -q '^removed the hooks' "$LAB_DIR/drain" || die "$1: the hooks are left"
	[[ ! -e $LAB_PINS ]] || die "$1: pins are left"
	switch_passes 8 "$1, drained"
}

# back_beside WHEN: changes back; the agent ends after the drain, as a DaemonSet's pod does.
back_beside() {
	kube_proxy_comes
	lab_sluice drain --deadline 20
	prints '^Draining since' lab_sluice status || die "$1: status does not say that the node is drained"
	switch_passes 2 "$1, drained beside an agent"
	lab_stop "$LAB_AGENT" || die "the agent ended badly: $(tail -n 20 "$LAB_DIR/agent.log")"
	lab_sluice cleanup >"$LAB_DIR/cleanup" || die "$1: $(cat "$LAB_DIR/cleanup")"
	switch_passes 8 "$1, removed"
}

rounds() {
	local round when rounds=$ROUNDS
	# The carrying is iptables mode's; what differs is who reads and removes the rules.
	[[ -n ${SLUICE_LONG:-} || $MODE != iptables-legacy ]] || rounds=1
	kube_proxy_comes
	begin "$MODE, XDP $AGENT_XDP, begun with kube-proxy"
	begin_fresh
	for ((round = 1; round <= rounds; round++)); do
		when="$MODE, XDP $AGENT_XDP, round $round"
		there "$when" "$round"
		if ((round % 2)); then back "$when"; else back_beside "$when"; fi
	done
	switch_ends
	lab_stop "$KUBE_PROXY" || true
	lab_sluice cleanup --kube-proxy --force >/dev/null
}

cluster_up switch
lab_guest
cluster_pods
services
lab_offload off
for AGENT_XDP in $XDP_MODES; do
	for MODE in $MODES; do rounds; done
done
