#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# The slices that the real controllers make of Pods and Services reach the maps, and traffic follows: SEM-1, 2, 8, 9, 11, 14,
# 15, 20, 21, 23, 24, 26, 57, 83, and choice H; over protobuf as over JSON.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

WEB4=10.96.0.80 WEB6=fd00:10:96::80
ALL='10.244.1.10:8080 10.244.2.10:8080 10.244.3.10:8080 10.244.4.10:8080'

# web [FIELDS]: writes the service of the pods; FIELDS are more lines of its spec.
web() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata:
		  name: web
		  namespace: default
		spec:
		  selector: {app: web}
		  type: NodePort
		  ipFamilyPolicy: RequireDualStack
		  clusterIPs: [$WEB4, "$WEB6"]
		  clusterIP: $WEB4
		  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]
		${1:-}
	YAML
}

slices() {
	becomes "SEM-20: four ready pods in two families" "$ALL" family4 default/web:
	[[ $(backends_of default/web:) == *fd00:10:244:3::10* ]] || die "SEM-9: no IPv6 backends: $(backends_of default/web:)"
	becomes "traffic from a pod by IPv4" "web-a web-b web-c web-pod" answers pod "$WEB4" 80
	becomes "traffic from a pod by IPv6" "web-a web-b web-c web-pod" answers pod "$WEB6" 80
	becomes "traffic from outside by the node port" "web-a web-b web-c web-pod" answers client 10.0.0.10 30080
	cluster_pod web-b --not-ready
	becomes "SEM-8: a pod that is not ready" "${ALL/ 10.244.3.10:8080/}" family4 default/web:
	cluster_pod web-b
	becomes "ready again" "$ALL" family4 default/web:
}

terminating() {
	kube delete Pod/web-c --grace 300
	becomes "SEM-20: a pod that ends gets nothing new" "${ALL/ 10.244.4.10:8080/}" family4 default/web:
	kube delete Pod/web-c --grace 0
	cluster_pod web-c
	becomes "recreated" "$ALL" family4 default/web:
	kube delete Pod/web-pod --grace 300
	becomes "a pod of this node ends" "${ALL#* }" family4 default/web:
	becomes "SEM-57: it reaches services as a client by IPv4" "web-a web-b web-c" answers pod "$WEB4" 80
	becomes "SEM-57: and by IPv6" "web-a web-b web-c" answers pod "$WEB6" 80
	becomes "SEM-57: it answers by its own address" web-pod answers worker-a 10.244.1.10 8080
	becomes "SEM-57: also by IPv6" web-pod answers worker-a fd00:10:244:1::10 8080
	kube delete Pod/web-pod --grace 0
	cluster_pod web-pod
	becomes "recreated, too" "$ALL" family4 default/web:
}

# zone_b: whether the endpoint in zone-b is selected, and that in zone-c is not.
zone_b() {
	local found
	found=$(family4 default/web:)
	[[ $found == *10.244.3.10:8080* && $found != *10.244.4.10* ]] && echo true
}

zones() {
	web '  trafficDistribution: PreferSameZone'
	becomes "SEM-23: hints of the real controller, node in zone-a" "10.244.1.10:8080 10.244.2.10:8080" family4 default/web:
	becomes "traffic stays in the zone" "web-a web-pod" answers pod "$WEB4" 80
	kube patch Node/node '{"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-b"}}}'
	# The controller moves the node's own pod to zone-b only when it rewrites the slice.
	WITHIN=5 becomes "SEM-24: the node moves to zone-b" true zone_b
	kube patch Node/node '{"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-a"}}}'
	web '  trafficDistribution: PreferSameNode'
	becomes "SEM-22: same node" "10.244.1.10:8080" family4 default/web:
	web
	becomes "no distribution, no hints" "$ALL" family4 default/web:
}

# region NODE VALUE: sets a label that slices do not contain.
region() { kube patch "Node/$1" "{\"metadata\": {\"labels\": {\"topology.kubernetes.io/region\": $2}}}"; }

# keys VALUE: sets web's topology keys.
keys() { kube patch Service/web "{\"metadata\": {\"annotations\": {\"sluice.lb/topology-keys\": $1}}}"; }

# peers: the number of other Nodes that the agent knows; empty if it watches none.
peers() {
	lab_in node curl -fsS -m 2 http://127.0.0.1:10249/metrics | sed -n 's/^sluice_api_objects{resource="peer_nodes"} //p'
}

# regions: choice H with labels of the endpoints' Nodes, changed while the agent runs.
regions() {
	region node '"north"'
	region worker-a '"south"'
	region worker-b '"north"'
	becomes "no Service asks for labels, and no other Node is watched" "" peers
	keys '"topology.kubernetes.io/region,*"'
	becomes "SEM-21 choice H: the region of the endpoints' Nodes" "10.244.1.10:8080 10.244.3.10:8080" family4 default/web:
	becomes "three other Nodes are watched" 3 peers
	becomes "traffic stays in the region" "web-b web-pod" answers pod "$WEB4" 80
	region worker-a '"north"'
	becomes "choice H: a Node comes into the region" "10.244.1.10:8080 10.244.2.10:8080 10.244.3.10:8080" family4 default/web:
	region worker-b null
	becomes "choice H: a Node loses its label" "10.244.1.10:8080 10.244.2.10:8080" family4 default/web:
	keys '"topology.kubernetes.io/region,e2e/rack"'
	kube patch Node/worker-c '{"metadata": {"labels": {"e2e/rack": "1"}}}'
	region node null
	becomes "choice H: no Node shares a label with the own Node" "" family4 default/web:
	kube patch Node/node '{"metadata": {"labels": {"e2e/rack": "1"}}}'
	becomes "choice H: the second key, requested later" "10.244.1.10:8080 10.244.4.10:8080" family4 default/web:
	keys null
	becomes "without keys" "$ALL" family4 default/web:
	becomes "the others are watched for ten minutes more" 3 peers
}

# labels: SEM-1 and SEM-2, changed while the agent runs.
labels() {
	kube patch Service/web '{"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "other"}}}'
	becomes "SEM-1: another proxy's service goes" false has_service default/web:
	kube patch Service/web '{"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": null}}}'
	becomes "SEM-1: and comes back" "$ALL" family4 default/web:
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: headless, namespace: default}
		spec:
		  selector: {app: web}
		  clusterIP: None
		  ports: [{name: http, port: 80, targetPort: 8080}]
	YAML
	lab_wait 5 eval '[[ $(kube get "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=kubernetes.io/service-name=headless" |
		jq "[.items[] | select(.metadata.labels | has(\"service.kubernetes.io/headless\"))] | length") -gt 0 ]]' ||
		die "SEM-2: the controller labels no slice of a headless service"
	becomes "SEM-10: nothing for a headless service" false has_service default/headless
}

# mirrored: an Endpoints object of a service without selector, of which the mirroring controller makes a slice.
mirrored() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: legacy, namespace: default}
		spec:
		  clusterIP: 10.96.0.90
		  ports: [{name: http, port: 80, targetPort: 8080}]
		---
		apiVersion: v1
		kind: Endpoints
		metadata: {name: legacy, namespace: default}
		subsets:
		  - addresses: [{ip: 10.244.3.10}]
		    ports: [{name: http, port: 8080}]
	YAML
	becomes "SEM-11: mirrored Endpoints" "10.244.3.10:8080" family4 default/legacy
	becomes "traffic to them" web-b answers pod 10.96.0.90 80
	kube delete Service/legacy
	becomes "the service is deleted" false has_service default/legacy
}

# load_balancer: writes the status as a cloud controller does.
load_balancer() {
	kube patch Service/web '{"spec": {"type": "LoadBalancer"}}'
	kube patch Service/web --status '{"status": {"loadBalancer": {"ingress": [
		{"ip": "203.0.113.80", "ipMode": "VIP"}, {"ip": "203.0.113.81", "ipMode": "Proxy"}, {"hostname": "lb.example"}]}}}'
	becomes "SEM-14: a VIP is served, a proxy's address is not" "203.0.113.80" eval \
		'lab_sluice services -o json | jq -r "[.[].frontends[] | select(.kind == \"LoadBalancer\").address] | unique | join(\" \")"'
	becomes "traffic to the VIP" "web-a web-b web-c web-pod" answers client 203.0.113.80 80
}

# restart [OPTION...]: starts an agent without pins.
restart() {
	lab_stop "$LAB_AGENT" TERM
	rm -rf "$LAB_PINS"
	cluster_agent "$@"
}

# named: an agent that owns a named subset of the services serves only that.
named() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata:
		  name: theirs
		  namespace: default
		  labels: {service.kubernetes.io/service-proxy-name: edge}
		spec:
		  selector: {app: web}
		  clusterIP: 10.96.0.92
		  ports: [{name: http, port: 80, targetPort: 8080}]
	YAML
	restart --service-proxy-name edge
	becomes "--service-proxy-name: only what carries that name" '["default/theirs:http"]' \
		eval 'lab_sluice services -o json | jq -c "[.[].service] | unique"'
	becomes "its backends" "$ALL" family4 default/theirs:
	kube patch Service/theirs '{"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": null}}}'
	becomes "the name is taken away" false has_service default/theirs
}

# chosen: --slice-selector excludes slices of other zones.
chosen() {
	restart --slice-selector '!zone.example/other'
	becomes "--slice-selector: all are chosen" "$ALL" family4 default/web:
	kube apply <<-YAML
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: web-other
		  namespace: default
		  labels: {kubernetes.io/service-name: web, zone.example/other: ""}
		addressType: IPv4
		ports: [{name: http, port: 8080, protocol: TCP}]
		endpoints: [{addresses: [10.244.2.99]}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: web-here
		  namespace: default
		  labels: {kubernetes.io/service-name: web}
		addressType: IPv4
		ports: [{name: http, port: 8080, protocol: TCP}]
		endpoints: [{addresses: [10.244.2.98]}]
	YAML
	becomes "--slice-selector: one of two new slices" \
		"10.244.1.10:8080 10.244.2.10:8080 10.244.2.98:8080 ${ALL#*2.10:8080 }" family4 default/web:
}

# the_same: an agent that reads JSON writes the same maps.
the_same() {
	lab_maps >"$LAB_DIR/protobuf"
	[[ -s $LAB_DIR/protobuf ]] || die "no maps to compare"
	restart --api-encoding=json
	lab_maps >"$LAB_DIR/json"
	diff "$LAB_DIR/protobuf" "$LAB_DIR/json" || die "protobuf and JSON gave different maps"
	printf 'protobuf and JSON: the same %d lines\n' "$(wc -l <"$LAB_DIR/json")"
}

cluster_up slices
web
cluster_pods
cluster_agent
slices
terminating
zones
regions
labels
mirrored
load_balancer
the_same
named
chosen
