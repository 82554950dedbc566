#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The output of the commands: status, services, backends, flows and the two HTTP servers show what real traffic did, with the
# agent and without it, and tables and JSON show the same.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

NODE=10.0.0.10 NODE_PORT=30080

page() { lab_in node curl -sS -m 5 "http://127.0.0.1:$1$2"; }

# equal WHAT WANTED FOUND: checks that both are equal.
equal() {
	[[ $2 == "$3" ]] || die "$1: wanted '$2', found '$3'"
	printf '%s: %s\n' "$1" "$3"
}

# check_commands: checks that hold with and without an agent.
check_commands() {
	equal "services of the examples" "default/web:http kube-system/dns:dns" \
		"$(lab_sluice services -o json | jq -r '[.[].service] | unique | join(" ")')"
	equal "rows of the table" "$(lab_sluice services -o json | jq length)" "$(lab_sluice services | tail -n +2 | wc -l)"
	equal "services that are asked for" "dns:dns" "$(lab_sluice services kube-system/ -o json | jq -r '[.[].service] | unique[0]' | cut -d/ -f2)"
	equal "and no others" "0" "$(lab_sluice services kube-system/dns -o json | jq '[.[] | select(.service | startswith("default/"))] | length')"
	equal "node port" "$NODE_PORT" \
		"$(lab_sluice services -o json | jq '[.[] | select(.service == "default/web:http") | .frontends[] | select(.kind == "NodePort").port] | unique[0]')"
	equal "backends in the cluster set" "$(lab_sluice services -o json | jq 'map(select(.service == "default/web:http").clusterSlots) | add')" \
		"$(lab_sluice backends default/web -o json | jq 'map(select(.inClusterSet)) | length')"
	equal "backends of the node's zone" "same-node" \
		"$(lab_sluice backends default/web -o json | jq -r '[.[] | select(.address == "10.244.1.10").locality][0]')"
	equal "flow of the client" "default/web:http $NODE:$NODE_PORT" \
		"$(lab_sluice flows --limit 0 -o json | jq -r '[.flows[] | select(.client | startswith("10.0.0.100:")) | "\(.service) \(.frontend)"] | unique[0]')"
	lab_sluice flows --limit 0 -o json | jq -e 'all(.flows[]; .idleSeconds < 60)' >/dev/null || die "a flow was idle before it began"
	equal "no flow twice" "$(lab_sluice flows --limit 0 -o json | jq '[.flows[] | .client + .frontend] | unique | length')" \
		"$(lab_sluice flows --limit 0 -o json | jq .all)"
	equal "one of all flows" "1" "$(lab_sluice flows --limit 1 -o json | jq '.flows | length')"
}

# reset_by_client PORT: a connection from that port of the client, which resets it.
reset_by_client() {
	lab_in client python3 - "$1" "$NODE" "$NODE_PORT" <<-'PYTHON'
		import socket, struct, sys
		connection = socket.create_connection((sys.argv[2], int(sys.argv[3])), 5, ("10.0.0.100", int(sys.argv[1])))
		connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
		connection.close()
	PYTHON
}

outcome() { lab_sluice status -o json | jq ".outcomes.$1"; }

lab_up commands
lab_backends
lab_agent --xdp off
equal "node" "node zone-a" "$(lab_sluice status -o json | jq -r '"\(.node) \(.zone)"')"
equal "agent" "$LAB_AGENT" "$(lab_sluice status -o json | jq .agent.pid)"

before=$(($(outcome new_remote) + $(outcome new_local)))
lab_ask client tcp "$NODE" "$NODE_PORT" --count 40 >"$LAB_DIR/asked"
equal "new flows counted" 40 "$(($(outcome new_remote) + $(outcome new_local) - before))"
check_commands

# Only the forward entry knows of the client's reset.
reset_by_client 20999
equal "state of a connection that its client has reset" "reset" \
	"$(lab_sluice flows --limit 0 -o json | jq -r '.flows[] | select(.client == "10.0.0.100:20999").state')"

equal "health" "true" "$(page 10256 /healthz | jq .healthy)"
equal "proxy mode" "sluice" "$(page 10249 /proxyMode)"
scraped=$(page 10249 /metrics)
equal "outcome in a scrape" "$(outcome new_remote)" \
	"$(sed -n 's/^sluice_outcomes_total{.*outcome="new_remote"} //p' <<<"$scraped")"
equal "services in a scrape" "$(lab_sluice status -o json | jq .maps.lb_services.used)" \
	"$(sed -n 's/^sluice_map_entries{map="lb_services"} //p' <<<"$scraped")"
# The first scrape starts the count of flows, a later one has the result.
counted() { [[ $(page 10249 /metrics | sed -n 's/^sluice_map_entries{map="lb_flows4"} //p') -gt 0 ]]; }
lab_wait 10 counted || die "a scrape never shows the flows"

# Backends without endpoints are not shown, and not counted as in use.
rows() { lab_sluice backends default/web "$@" -o json | jq '[.[] | select(.address == "10.244.4.10")] | length'; }
rows_are() { [[ $(rows) == "$1" ]]; }
retired() { lab_sluice status -o json | jq .maps.lb_backends.retired; }
equal "no backend is gone" "0" "$(retired)"
sed -i '/addresses: \[10.244.4.10\]/,/targetRef/d' "$LAB_MANIFESTS/web-endpoints.yaml"
lab_wait 5 rows_are 0 || die "a backend that is gone is shown: $(lab_sluice backends default/web)"
equal "a backend that is gone, and that flows may name" "1 1" "$(rows --all) $(retired)"
cp "$SLUICE_ROOT/k8s/examples/web-endpoints.yaml" "$LAB_MANIFESTS"
lab_wait 5 rows_are 1 || die "a backend that is back is not shown"

# A missing Node is reported only if there are other Nodes.
without() { lab_sluice status -o json | jq -r .without; }
misses_its_node() { [[ $(without) == *"Node node: there is none of that name"* ]]; }
has_its_node() { ! misses_its_node; }
has_its_node || die "status misses a Node that is there: $(without)"
sed -i 's/^  name: node$/  name: renamed/' "$LAB_MANIFESTS/nodes.yaml"
lab_wait 5 misses_its_node || die "status does not miss the Node: $(without)"
grep -q 'Node node: there is none of that name, so ' "$LAB_DIR/agent.log" || die "the log does not miss the Node"
cp "$SLUICE_ROOT/k8s/examples/nodes.yaml" "$LAB_MANIFESTS"
lab_wait 5 has_its_node || die "status misses a Node that is there again: $(without)"
printf 'a Node that is not there is missed\n'

killed=$(date +%s)
lab_stop "$LAB_AGENT" KILL || true
equal "agent after a kill" "false" "$(lab_sluice status -o json | jq .agent.running)"
since=$(date -d "$(lab_sluice status -o json | jq -r .agent.absentSince)" +%s)
((since <= killed + 1 && since >= killed - 60)) || die "status says that there is no agent since $since, and it was killed at $killed"
[[ $(lab_sluice status) == *"NOT RUNNING since "* ]] || die "status does not say since when no agent runs: $(lab_sluice status)"
lab_ask client tcp "$NODE" "$NODE_PORT" --count 10 >"$LAB_DIR/asked"
check_commands

lab_agent --xdp off
equal "agent after a restart" "$LAB_AGENT" "$(lab_sluice status -o json | jq .agent.pid)"
grep -q 'took over' "$LAB_DIR/agent.log" || die "the second agent took nothing over"
check_commands
lab_stop "$LAB_AGENT" TERM
grep -q 'exiting on signal 15' "$LAB_DIR/agent.log" || die "the agent did not end by itself"
