#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Services are served on a node with remains of kube-proxy's IPVS mode: kube-ipvs0, a dummy device that holds every service's
# address, and virtual services without a reachable real server. Requests to an address on another dummy device (as NodeLocal
# DNSCache adds) stay on the node.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

LOCAL_DNS=10.96.0.53 LOCAL_DNS6=fd00:10:96::53

# dummy NAME ADDRESS...: adds a dummy device with these addresses.
dummy() {
	local address
	ip -n "$LAB-node" link add "$1" type dummy
	for address in "${@:2}"; do
		case $address in
		*:*) ip -n "$LAB-node" address add "$address/128" dev "$1" nodad ;;
		*) ip -n "$LAB-node" address add "$address/32" dev "$1" ;;
		esac
	done
}

# virtual ADDRESS REAL: adds a virtual service whose real server does not exist.
virtual() {
	lab_in node ipvsadm -A -t "$1" -s rr
	lab_in node ipvsadm -a -t "$1" -r "$2" -m
}

# local_dns: creates a service whose addresses the node itself holds; its endpoints are on other nodes.
local_dns() {
	sed "s/10\.96\.0\.10\b/$LOCAL_DNS/; s/fd00:10:96::10\b/$LOCAL_DNS6/; s/name: dns/name: node-dns/; s/9f3a-2f8f1f0c9a02/9f3a-2f8f1f0c9a53/" \
		"$SLUICE_ROOT/k8s/examples/dns.yaml" >"$LAB_MANIFESTS/node-dns.yaml"
	sed "s/name: dns/name: node-dns/; s/service-name: dns/service-name: node-dns/" "$SLUICE_ROOT/k8s/examples/dns-endpoints.yaml" \
		>"$LAB_MANIFESTS/node-dns-endpoints.yaml"
}

modules dummy ip_vs ip_vs_rr
lab_up ipvs
lab_guest
lab_backends
dummy kube-ipvs0 "$WEB" "$WEB6" "$WEB_OUTSIDE" "$WEB_OUTSIDE6" "$DNS" "$DNS6"
dummy nodelocaldns "$LOCAL_DNS" "$LOCAL_DNS6"
ip -n "$LAB-node" link set nodelocaldns up
virtual "$WEB:80" 10.0.0.99:80
virtual "[$WEB6]:80" "[fd00:10::99]:80"
virtual "$NODE:$NODE_PORT" 10.0.0.99:80
local_dns
lab_start node own-dns.log python3 "$SLUICE_ROOT/scripts/lib/backend.py" own-dns 8053 53
lab_agent --pod-devices pod --xdp off
served "beside kube-ipvs0"
counted new_remote new_from_pod flow_redirect socket_translated
for who in pod guest node; do
	for address in "$LOCAL_DNS" "$LOCAL_DNS6"; do
		lab_ask "$who" udp "$address" 53 --count 20 --json >"$LAB_DIR/answers" || die "$who, $address: $(<"$LAB_DIR/answers")"
		[[ $(jq -c '.answers | keys' "$LAB_DIR/answers") == '["own-dns"]' ]] || die "$who, $address: $(<"$LAB_DIR/answers")"
	done
done
printf 'requests to an address of another dummy device stay on the node\n'
