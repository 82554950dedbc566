#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-134: 20 Services with health-check node ports at every address of the node, and clients that hold connections to all of
# them open: the agent keeps the descriptors that it needs itself. Changes are applied, probes and other clients get answers.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

SERVICES=20 FIRST=31000 LIMIT=1024 RESERVE=512
ADDRESSES=(10.0.0.10 10.0.0.11 10.0.0.12 10.0.0.13)

# services COUNT: Services with a health-check node port, and an endpoint on this node.
services() {
	jq -nc --argjson count "$1" --argjson first "$FIRST" '{apiVersion: "v1", kind: "List", items: [range($count) | ("checked\(.)") as $name | (
		{apiVersion: "v1", kind: "Service", metadata: {namespace: "default", name: $name},
			spec: {type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: (. + $first), clusterIP: "10.96.7.\(. + 1)",
				ports: [{name: "http", port: 80, nodePort: (. + $first + 500)}]}},
		{apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4",
			metadata: {namespace: "default", name: $name, labels: {"kubernetes.io/service-name": $name}},
			ports: [{name: "http", port: 8080}], endpoints: [{addresses: ["10.244.1.10"], nodeName: "node"}]})]}'
}
used() { find "/proc/$LAB_AGENT/fd" -mindepth 1 | wc -l; }
listens() { (($(lab_in node ss -Hltn "sport >= $FIRST and sport < $((FIRST + SERVICES))" | wc -l) >= $1)); }
served() { lab_ask pod tcp "$1" 80; }
# code WHO URL: the status of an answer that arrives within some seconds, which a busy machine may need.
code() { lab_in "$1" curl -s -o /dev/null -m 5 -w '%{http_code}' "$2" || true; }
full() { grep -qs full "$LAB_DIR/crowd-1.log" && grep -qs full "$LAB_DIR/crowd-2.log"; }

lab_up descriptors
lab_backends
for address in "${ADDRESSES[@]:1}"; do ip -n "$LAB-node" address add "$address/24" dev eth0; done
# A soft limit that is too small for 80 listeners and their clients, and a hard one that is the usual soft one.
WHOLE=$SLUICE SLUICE=$LAB_DIR/limited
printf '#!/bin/bash\nulimit -Sn 128 && ulimit -Hn %d && exec %q "$@"\n' "$LIMIT" "$WHOLE" >"$SLUICE"
chmod +x "$SLUICE"
# One listener for each address: with --node-port-addresses all, one listens for all of them.
lab_agent --xdp off --node-port-addresses 10.0.0.0/24
[[ $(prlimit --pid "$LAB_AGENT" --nofile --output SOFT --noheadings | tr -d ' ') == "$LIMIT" ]] || die "the soft limit is not raised"
services "$SERVICES" >"$LAB_MANIFESTS/checked.json"
lab_wait 20 listens $((SERVICES * ${#ADDRESSES[@]})) || die "not all health-check node ports listen: $(lab_in node ss -Hltn | wc -l)"
own=$(used)

ports=$(seq -s , "$FIRST" $((FIRST + SERVICES - 1)))
lab_start client crowd-1.log python3 "$SLUICE_ROOT/tests/net/lib/crowd.py" 60 20 "$ports" "${ADDRESSES[@]}"
lab_start worker-b crowd-2.log python3 "$SLUICE_ROOT/tests/net/lib/crowd.py" 60 20 "$ports" "${ADDRESSES[@]}" fd00:10::10
lab_wait 60 full || die "the clients do not get in"
most=0
for ((i = 0; i < 20; i++)); do
	((most = $(used) > most ? $(used) : most)) || true
	sleep 0.1
done
printf 'descriptors: %d with all ports open, %d with %d connections wanted, of %d\n' "$own" "$most" $((SERVICES * 20 * 9)) "$LIMIT"
((most <= LIMIT - RESERVE + own)) || die "clients use up the reserve: $most of $LIMIT"

# Others' changes, the probes, and other clients of the same ports.
services 1 | sed 's/checked0/late/g; s/10\.96\.7\.1"/10.96.8.1"/; s/31000/30999/; s/31500/31499/' >"$LAB_MANIFESTS/late.json"
lab_wait 5 served 10.96.8.1 || die "a change is not applied while clients hold connections open"
for ((i = 0; i < 5; i++)); do
	[[ $(code node http://127.0.0.1:10256/livez) == 200 ]] || die "/livez: no answer"
	[[ $(code worker-a "http://10.0.0.11:$((FIRST + i))/") == 200 ]] || die "a load balancer's probe gets $(code worker-a "http://10.0.0.11:$((FIRST + i))/")"
done
! grep -q "open files" "$LAB_DIR/agent.log" || die "the log: $(grep -m 1 'open files' "$LAB_DIR/agent.log")"
printf 'changes are applied, probes and other clients are answered\n'

# More Services than ports can be open: those that listen stay, and the owner of the rest is told.
services 120 >"$LAB_MANIFESTS/checked.json"
lab_wait 20 grep -q "such ports are open, which is the limit of a namespace" "$LAB_DIR/agent.log" || die "ports beyond the limit: $(used) descriptors"
[[ $(code worker-a "http://10.0.0.11:$FIRST/") == 200 ]] || die "a port that listened does not any more"
[[ $(code node http://127.0.0.1:10256/livez) == 200 ]] || die "/livez: no answer, with 120 Services"
printf 'beyond the limit: %s\n' "$(grep -m 1 -o 'cannot listen on its health-check node port.*' "$LAB_DIR/agent.log")"
