#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# Faulty connections between the agent and the API server: REL-31 to 34, 77. After each fault the agent follows changes
# again.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

PORT=7443

state() { family4 default/web:; }

# endpoint NUMBER: a change that needs no controller: another slice of the same service.
endpoint() {
	kube apply <<-YAML
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: web-by-hand
		  namespace: default
		  labels: {kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: e2e}
		addressType: IPv4
		ports: [{name: http, port: 8080, protocol: TCP}]
		endpoints: [{addresses: [10.244.2.$1]}]
	YAML
}

# follows WHAT: checks that a change made now arrives; each call makes another change.
NEXT=20
follows() {
	NEXT=$((NEXT + 1))
	endpoint "$NEXT"
	WITHIN=${WITHIN:-15} becomes "$1" "10.244.2.$NEXT:8080" state
}

# older_stream TIME: whether a stream is open that was requested before TIME.
older_stream() { awk -v time="$1" '{ exit !($1 != "none" && $1 < time) }' "$CLUSTER/oldest"; }

# again RULES: cuts every stream, then applies RULES.
again() {
	local now
	now=$(date +%s.%3N)
	rules "[{\"match\": \".\", \"now\": \"cut\"}]"
	lab_wait 60 eval "! older_stream $now" || die "a stream goes on that was to be cut"
	rules "$1"
}

# restart RULES: starts an agent without pins, with RULES in force.
restart() {
	lab_stop "$LAB_AGENT" KILL || true
	rm -rf "$LAB_PINS"
	rules "$1"
	cluster_agent "${@:2}"
}

requests() { grep -c ' GET ' "$LAB_DIR/proxy.log" || true; }

# calm WHAT AT_MOST: checks the number of the agent's requests in three seconds.
calm() {
	local before count
	before=$(requests)
	sleep 3
	count=$(($(requests) - before))
	((count <= $2)) || die "$1: $count requests in 3 s"
	printf '%s: %d requests in 3 s\n' "$1" "$count"
}

# refused_by_status ENCODING, refused_by_event ENCODING: the two ways in which a server refuses streaming lists.
refused_by_status() {
	local status='{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}'
	restart "[{\"match\": \"sendInitialEvents\", \"answer\": 422, \"body\": $(jq -c tojson <<<"$status")}]" "--api-encoding=$1"
	follows "REL-32: streaming lists refused by a status, $1"
	lab_maps >"$LAB_DIR/maps.fallback"
	restart '[]' "--api-encoding=$1"
	lab_maps | diff "$LAB_DIR/maps.fallback" - || die "REL-32: a streamed list and a plain one gave different maps ($1)"
}

refused_by_event() {
	restart '[{"match": "sendInitialEvents", "error": 422, "reason": "Invalid"}]' "--api-encoding=$1"
	follows "REL-32: streaming lists refused by an event, $1"
	lab_maps | jq -s 'length' >/dev/null
}

refused_streams() {
	refused_by_status protobuf
	refused_by_event json
	[[ -n ${SLUICE_LONG:-} ]] || return 0
	refused_by_status json
	refused_by_event protobuf
}

# memory FIELD: the agent's memory, in KiB.
memory() { awk -v field="$1:" '$1 == field { print $2 }' "/proc/$LAB_AGENT/status"; }

last_endpoint() { family4 default/burst: | tr ' ' '\n' | grep '^10\.200\.'; }

# logged FROM WORD: the proxy's log lines with WORD after line FROM.
logged() { tail -n "+$(($1 + 1))" "$LAB_DIR/proxy.log" | grep -E "^[0-9.]+ $2 " || true; }

# burst_endpoint NUMBER: the slice's last endpoint after that change.
burst_endpoint() { printf '10.200.%d.%d:8080\n' $(($1 >> 8)) $(($1 & 255)); }

# hold_changes LAST TIMES: makes the proxy hold all changes of the slice from the second to LAST, to send them TIMES times.
hold_changes() {
	local from
	from=$(wc -l <"$LAB_DIR/proxy.log")
	rm -f "$CLUSTER/gathered"
	rules "[{\"match\": \"endpointslices.*watch=\", \"now\": \"gather\", \"repeat\": $2}]"
	lab_wait 60 eval '[[ -n $(logged "$from" gathering) ]]' || die "no stream gathers"
	kube rewrite burst-0 2 "$1" 1000 255000 gathered
	[[ $(last_endpoint) == "$(burst_endpoint 1)" ]] || die "the proxy did not hold the changes"
}

# burst LAST TIMES OPTION: that many changes of a slice with 1,000 endpoints arrive at once, TIMES times (REL-33). The agent
# may need memory for a few such objects, but not for all of them. One more change follows.
burst() {
	local before peak bytes from next=$(($1 + 1))
	restart '[]' "$3"
	kube delete EndpointSlice/burst-0 2>/dev/null || true
	kube slices burst 1 1000
	kube rewrite burst-0 1 1 1000 255000
	becomes "one change of a big slice" "$(burst_endpoint 1)" last_endpoint
	from=$(wc -l <"$LAB_DIR/proxy.log")
	hold_changes "$1" "$2"
	before=$(memory VmRSS)
	echo 5 >"/proc/$LAB_AGENT/clear_refs" # VmHWM begins anew
	rules '[]'
	kube rewrite burst-0 "$next" "$next" 1000 255000
	WITHIN=60 becomes "REL-33: a burst of 100 MB ($3)" "$(burst_endpoint "$next")" last_endpoint
	peak=$(memory VmHWM)
	bytes=$(logged "$from" burst | awk '$NF > bytes { bytes = $NF } END { print bytes + 0 }')
	((bytes >= 100000000)) || die "REL-33: the burst had $bytes bytes: $(logged "$from" '.*')"
	((peak - before <= 16384)) || die "REL-33: a burst of $bytes bytes took $((peak - before)) KiB"
	(($(lab_sluice backends default/burst: -o json | jq '[.[] | select(.inClusterSet)] | length') == 1000)) ||
		die "REL-33: not all endpoints are there after the burst"
	printf 'REL-33: %d bytes took %d KiB\n' "$bytes" $((peak - before))
}

# The API server takes minutes for as many changes as make 100 MB, so only the long form makes them; otherwise a few changes
# are sent repeatedly.
bursts() {
	cluster_service burst 10.96.0.94
	burst 21 20 --api-encoding=protobuf
	burst 21 16 --api-encoding=json
	if [[ -n ${SLUICE_LONG:-} ]]; then
		burst 346 1 --api-encoding=protobuf
		burst 266 1 --api-encoding=json
	fi
	kube delete Service/burst
	kube delete EndpointSlice/burst-0
}

count() { lab_sluice services -o json | jq '[.[] | select(.service == "default/many:http").clusterSlots] | max'; }

# REL-31: a list in pages, whose continue token has expired when the second page is requested; from a server without
# streaming lists.
expired_token() {
	cluster_service many 10.96.0.93
	kube slices many 510 4
	restart '[{"match": "sendInitialEvents", "answer": 422}]'
	becomes "REL-31: a list in pieces" 2040 count
	(($(requests_matching ' GET .*endpointslices.*continue=') > 0)) || die "the list came in one piece"
	restart '[{"match": "sendInitialEvents", "answer": 422}, {"match": "continue=", "answer": 410, "times": 1}]'
	WITHIN=10 becomes "REL-31: an expired token" 2040 count
	(($(requests_matching ' answer GET .*continue=') > 0)) || die "no token was refused"
}

# REL-32: the list is cut before its final bookmark: the agent writes nothing; then it gets the whole list.
cut_lists() {
	lab_stop "$LAB_AGENT" KILL || true
	rm -rf "$LAB_PINS"
	rules '[{"match": "endpointslices", "cut": 200}]'
	cluster_agent_starts
	lab_wait 20 eval '(($(requests_matching " cut GET") >= 2))' || die "the agent did not retry"
	lacks default/web lab_sluice services 2>/dev/null || die "REL-32: written before a whole list"
	rules '[]'
	follows "REL-32: lists cut short, then whole"
}

streams() {
	local at
	for at in 7 333 ${SLUICE_LONG:+1 100}; do
		# A new agent each time, whose retry pauses are still short.
		restart '[]'
		again "[{\"match\": \"endpointslices.*watch=\", \"cut\": $at, \"times\": 2}]"
		follows "REL-33: streams cut after $at bytes"
	done
	again '[{"match": ".", "drip": 1}]'
	follows "REL-33: one byte at a time"
	again '[]'
	follows "REL-33: cut without a rule"
}

# held_labels: other Nodes cannot be listed: a Service that asks for their labels waits, and keeps its previous state; all
# other Services are updated (SEM-21 choice H, REL-78).
held_labels() {
	local refused='[{"match": "nodes.*metadata.name%21", "answer": 503}]'
	rules "$refused"
	for node in node worker-a; do kube patch "Node/$node" '{"metadata": {"labels": {"e2e/rack": "1"}}}'; done
	kube slices racked 1 3
	cluster_service racked 10.96.0.95 'annotations: {sluice.lb/topology-keys: e2e/rack}'
	follows "while no other Node is known"
	[[ $(has_service default/racked) == false ]] || die "choice H: planned before the labels of Nodes were known"
	rules '[]'
	WITHIN=10 becomes "choice H: the labels are known" "10.128.0.3:8080" family4 default/racked
	rules "$refused"
	lab_stop "$LAB_AGENT" KILL || true
	cluster_agent_starts
	follows "choice H: another agent, while no other Node is known"
	[[ $(family4 default/racked) == 10.128.0.3:8080 ]] || die "choice H: what a waiting Service had is gone"
	rules '[]'
	kube patch Node/worker-b '{"metadata": {"labels": {"e2e/rack": "1"}}}'
	WITHIN=10 becomes "choice H: and goes on" "10.128.0.1:8080 10.128.0.3:8080" family4 default/racked
	kube delete Service/racked
}

# half_open: from now on the packets of existing connections are dropped silently, in both directions.
half_open() {
	local ports
	ports=$(lab_in node ss -Htn state established dst "10.0.0.2:$PORT" | awk '{ sub(".*:", "", $3); print $3 }' | paste -sd ,)
	[[ -n $ports ]] || die "the agent has no connection"
	lab_in control nft -f - <<-NFT
		table inet e2e {
			chain in { type filter hook input priority 0; tcp sport { $ports } drop; }
			chain out { type filter hook output priority 0; tcp dport { $ports } drop; }
		}
	NFT
	WITHIN=60 follows "REL-33: half-open connections"
}

refusals() {
	again '[{"match": ".", "answer": 429, "headers": {"Retry-After": "1"}}]'
	calm "REL-34: 429 with Retry-After" 24
	rules '[]'
	follows "REL-34: after 429"
	again '[{"match": ".", "answer": 500}]'
	calm "REL-34: 500" 36
	rules '[]'
	follows "REL-34: after 500"
	for status in 401 ${SLUICE_LONG:+403 404}; do
		again "[{\"match\": \".\", \"answer\": $status}]"
		calm "REL-77: $status from a server that dies" 36
		[[ $(state) == "10.244.2.$NEXT:8080" ]] || die "REL-77: $status changed the state: $(state)"
		rules '[]'
		follows "REL-77: after $status"
	done
}

# The server accepts an old token for ten seconds more.
old_token_is_refused() {
	[[ $(lab_in control curl -sS -m 10 -o /dev/null -w '%{http_code}' --cacert "$CLUSTER/ca.crt" \
		-H "Authorization: Bearer $(<"$CLUSTER/token")" "$API/api/v1/services?limit=1") == 401 ]]
}

# REL-34: the account is recreated, so the token that the agent read at its start becomes invalid; a new one replaces it.
rotation() {
	local before
	kube delete ServiceAccount/kube-system/sluice
	kube apply <"$SLUICE_ROOT/k8s/deploy/account.yaml"
	kube token kube-system/sluice >"$CLUSTER/token.new"
	lab_wait 120 old_token_is_refused || die "REL-34: the old token is still worth something"
	before=$(requests)
	again '[]'
	lab_wait 60 eval "((\$(requests) > $before))" || die "REL-34: the agent asks for nothing"
	mv "$CLUSTER/token.new" "$CLUSTER/token"
	follows "REL-34: a rotated token"
}

cluster_up bad
cluster_web by-hand
cluster_proxy "$PORT"
agent_account
AGENT_KUBECONFIG=$CLUSTER/proxied.conf
kubeconfig "$AGENT_KUBECONFIG" "https://10.0.0.2:$PORT" "token $CLUSTER/token"
cluster_agent
follows "a change"
refused_streams
cut_lists
streams
bursts
held_labels
refusals
rotation
half_open
expired_token
