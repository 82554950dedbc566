#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An external IP that the node holds now and then, as keepalived and kube-vip move it between nodes: where --external-ips names its
# range, it is served all the time, whether or not the node holds it; the node's own address in such a range is not (REL-159).
# Without the option it is refused while the node holds it (REL-51).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

FLOATING=203.0.113.90 FLOATING6=2001:db8:113::90 OWN=10.0.0.10

# holds add|del: gives the node the addresses, or takes them away.
holds() {
	lab_in node ip address "$1" "$FLOATING/32" dev eth0
	lab_in node ip -6 address "$1" "$FLOATING6/128" dev eth0
}
external_ips() { lab_sluice services default/floating -o json | jq -r '[.[].frontends[] | select(.kind == "ExternalIP").address] | unique | join(" ")'; }
external_ips_are() { [[ $(external_ips) == "$1" ]]; }

# answered WHEN: checks that all four backends answer the client and the pod, in both families.
answered() {
	local who address result
	for who in client pod; do
		for address in "$FLOATING" "$FLOATING6"; do
			result=$(lab_ask "$who" tcp "$address" 80 --count 30 --json) || die "$1, $who: $result"
			[[ $(jq -c '[(.answers | keys | length), .failed == {}]' <<<"$result") == '[4,true]' ]] || die "$1, $who to $address: $result"
		done
	done
	printf '%s: answered\n' "$1"
}

lab_up floating
lab_backends
lab_agent --xdp off --external-ips "203.0.113.0/24,2001:db8:113::/64,10.0.0.0/24"
sed 's/name: web\b/name: floating/; s/^  name: web-/  name: floating-/; s,service-name: web,service-name: floating,' \
	"$SLUICE_ROOT/k8s/examples/web-endpoints.yaml" >"$LAB_MANIFESTS/floating-endpoints.yaml"
cat >"$LAB_MANIFESTS/floating.yaml" <<-END
	apiVersion: v1
	kind: Service
	metadata: {namespace: default, name: floating}
	spec:
	  clusterIP: 10.96.0.90
	  clusterIPs: [10.96.0.90, "fd00:10:96::90"]
	  ipFamilies: [IPv4, IPv6]
	  externalIPs: [$FLOATING, "$FLOATING6", $OWN]
	  ports: [{name: http, port: 80, targetPort: 8080}]
END
lab_wait 10 external_ips_are "$FLOATING6 $FLOATING" ||
	die "external IPs: $(external_ips)"
grep -q "external IP $OWN is refused: it is an address of this node that --external-ips does not name" "$LAB_DIR/agent.log" ||
	die "the log does not name the node's own address"
answered "the node does not hold the address"
lab_traffic client "$FLOATING" 80
holds add
sleep 2
answered "the node holds it"
holds del
sleep 2
lab_traffic_ends
holds add
lab_stop "$LAB_AGENT" TERM
lab_agent --xdp off
lab_wait 10 external_ips_are "" || die "served without the option: $(external_ips)"
holds del
lab_wait 10 external_ips_are "$FLOATING6 $FLOATING" ||
	die "not served once the node does not hold it: $(external_ips)"
