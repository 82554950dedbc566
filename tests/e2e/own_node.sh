#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# The agent's own Node changes while the agent runs: its addresses and its pod range are planned again (REL-43, SEM-96). And
# the agent posts Events on Services: one if a health-check node port is taken, and one if a Service exceeds the limits
# (SEM-58, SEM-77).
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

ALL='web-a web-b web-c web-pod'
CHECKED=32100

# node_addresses ADDRESS...: sets the Node's addresses, the primary one first.
node_addresses() {
	local list
	list=$(printf '{"type": "InternalIP", "address": "%s"}\n' "$@" | jq -sc .)
	kube patch Node/node --status "{\"status\": {\"addresses\": $list}}"
}

# pod_ranges: the pods' IPv4 ranges in the maps (LB_POD_RANGES).
pod_ranges() {
	bpftool map dump pinned "$LAB_PINS"/v*/maps/lb_ranges -j | jq -r '[.[].formatted.key |
		select(.service == 4294967295 and .address[10] == 255) | "\(.address[12:] | join("."))/\(.prefix - 128)"] | join(" ")'
}

addresses() {
	lab_in node ip address add 10.0.0.11/24 dev eth0
	becomes "node ports on the Node's own address" "$ALL" answers client 10.0.0.10 30080
	becomes "and on no other one" '' answers client 10.0.0.11 30080
	node_addresses 10.0.0.11
	becomes "REL-43: the Node's address changes, node ports follow" "$ALL" answers client 10.0.0.11 30080
	becomes "the old one serves no more" '' answers client 10.0.0.10 30080
	node_addresses 10.0.0.10
	becomes "REL-43: and back" "$ALL" answers client 10.0.0.10 30080
}

# ranges: a Node's podCIDRs never change, but the Node may be recreated.
ranges() {
	becomes "the pods' range" 10.244.1.0/24 pod_ranges
	kube delete Node/node
	cluster_node node zone-a 10 5 | sed 's/10\.244\./10.245./g' | kube apply
	becomes "REL-43: a Node that is made anew has another range" 10.245.5.0/24 pod_ranges
}

# checked: the reply of a service's health-check node port to an external load balancer; empty if refused.
checked() { lab_in client curl -sS -m 2 "http://10.0.0.10:$CHECKED/" | jq .localEndpoints; }

# events: the agent's Events.
events() {
	kube get /api/v1/namespaces/default/events |
		jq -r '.items[] | select(.reportingComponent == "sluice") | "\(.involvedObject.kind)/\(.involvedObject.name) \(.reason)"'
}

health_check() {
	lab_start node taken.log python3 "$SLUICE_ROOT/scripts/lib/backend.py" taken "$CHECKED" 5353
	local taken=$LAB_STARTED
	lab_wait 5 lab_in node curl -sf -o /dev/null "http://127.0.0.1:$CHECKED/" || die "no process took port $CHECKED"
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: checked, namespace: default}
		spec:
		  selector: {app: web}
		  type: LoadBalancer
		  clusterIP: 10.96.0.91
		  externalTrafficPolicy: Local
		  healthCheckNodePort: $CHECKED
		  ports: [{name: http, port: 80, targetPort: 8080}]
	YAML
	becomes "SEM-58: one event says that a health-check node port is taken" \
		"Service/checked FailedToStartServiceHealthcheck" events
	lab_stop "$taken" TERM || true
	becomes "SEM-58: it is tried again, and the port answers" 1 checked
	becomes "SEM-150: another event says that it listens, and there are no more" \
		"Service/checked FailedToStartServiceHealthcheck Service/checked StartedServiceHealthcheck" all_events
}

# limit: a Service that exceeds the limits gets an Event.
limit() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: greedy, namespace: default}
		spec:
		  selector: {app: web}
		  clusterIP: 10.96.0.92
		  externalIPs: [$(seq -s, -f 198.18.0.%g 1 70)]
		  ports: [{name: http, port: 80, targetPort: 8080}]
	YAML
	becomes "SEM-77: an event says that a Service asks for too much" \
		"Service/checked FailedToStartServiceHealthcheck Service/checked StartedServiceHealthcheck Service/greedy TooManyFrontends" all_events
}
all_events() { events | sort | paste -sd ' '; }

cluster_up own-node
cluster_web
cluster_pods
kube patch Service/web '{"spec": {"type": "NodePort", "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}]}}'
cluster_agent --node-port-addresses primary --max-service-frontends 60
addresses
health_check
limit
ranges
