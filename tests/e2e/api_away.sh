#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# The API server becomes unavailable, loses history and returns: REL-30, 31, 76, 78, 80, SEM-72. A pod makes requests to a
# service all the time, and none fails.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

AWAY=${SLUICE_LONG:+300} AWAY=${AWAY:-12}
HELD=${SLUICE_LONG:+600} HELD=${HELD:-6}
PORT=7443
ALL='10.244.1.10:8080 10.244.2.10:8080 10.244.3.10:8080 10.244.4.10:8080'
WITHOUT_B=${ALL/ 10.244.3.10:8080/}

state() { family4 default/web:; }
healthz() { lab_in node curl -s -o /dev/null -w '%{http_code}' -m 2 http://127.0.0.1:10256/healthz; }
# more: whether the slice "more" is in the maps.
more() { lab_sluice backends default/web -o json | jq 'any(.[]; .port == 8081 and .serving)'; }
affinity() { lab_sluice services -o json | jq '[.[] | select(.service == "default/web:http").affinitySeconds] | max'; }
lists() { requests_matching '^[0-9.]+ (-|record) GET .*endpointslices[^ ]*(sendInitialEvents=true|limit=[0-9][0-9])'; }

# endpoints NAME...: writes the service's slice by hand: a controller would need time to recover from an outage.
endpoints() {
	local name
	declare -A place=([pod]=1 [a]=2 [b]=3 [c]=4)
	{
		cat <<-YAML
			apiVersion: discovery.k8s.io/v1
			kind: EndpointSlice
			metadata:
			  name: web
			  namespace: default
			  labels: {kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: e2e}
			addressType: IPv4
			ports: [{name: http, port: 8080, protocol: TCP}]
			endpoints:
		YAML
		for name; do printf '  - {addresses: [10.244.%d.10]}\n' "${place[$name]}"; done
	} | kube apply
}

# cut_streams [RULES]: ends every open stream, then applies RULES.
cut_streams() {
	rules '[{"match": ".", "now": "cut"}]'
	sleep 0.3
	rules "${1:-[]}"
}

stop_api() {
	lab_stop "$CLUSTER_API" KILL || true
}

# etcd_ask PATH JSON: a request to etcd's own API.
etcd_ask() { lab_in control curl -fsS -m 5 "http://127.0.0.1:2379/v3/kv/$1" -d "$2"; }

# REL-30, REL-80: the API is away; the last state keeps serving and health stays green; the first change after its return is
# in the maps within 2 s.
away() {
	stop_api
	sleep "$AWAY"
	[[ $(healthz) == 200 ]] || die "REL-80: /healthz says $(healthz) because the API is away"
	[[ $(state) == "$ALL" ]] || die "REL-30: the state changed: $(state)"
	cluster_api
	kube patch Service/web '{"spec": {"sessionAffinity": "ClientIP"}}'
	WITHIN=2 becomes "REL-30: the first change after $AWAY s without an API server" 10800 affinity
	kube patch Service/web '{"spec": {"sessionAffinity": "None"}}'
	becomes "and the next" 0 affinity
}

# REL-31: the version that the agent has seen is compacted while it cannot watch, and the server's watch cache is new.
compacted() {
	local before revision
	kube apply <<-YAML
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: more
		  namespace: default
		  labels: {kubernetes.io/service-name: web}
		addressType: IPv4
		ports: [{name: http, port: 8081, protocol: TCP}]
		endpoints: [{addresses: [10.244.4.10], conditions: {ready: false, serving: true, terminating: true}}]
	YAML
	becomes "one more slice" true more
	before=$(lists)
	rules '[{"match": ".", "now": "cut"}, {"match": ".", "answer": 503}]'
	kube delete EndpointSlice/default/more
	revision=$(etcd_ask range '{"key": "AA==", "limit": "1"}' | jq -r .header.revision)
	etcd_ask compaction "{\"revision\": \"$revision\", \"physical\": true}" >/dev/null
	stop_api
	cluster_api
	rules '[]'
	WITHIN=10 becomes "REL-31: after a compaction, what was deleted meanwhile goes" false more
	(($(lists) > before)) || die "REL-31: no new list after a compaction"
	[[ $(state) == "$ALL" ]] || die "REL-31: the rest changed: $(state)"
}

# written: how many times the agent has written changes to the maps.
written() { lab_in node curl -fsS -m 2 http://127.0.0.1:10249/metrics | awk '/^sluice_publish_seconds_count/ { sum += $NF } END { print sum }'; }

# REL-31: error 410 as an event in a stream. A list without a difference writes nothing.
expired_event() {
	local before writes
	before=$(lists) writes=$(written)
	cut_streams '[{"match": "endpointslices.*resourceVersion=[1-9]", "error": 410, "reason": "Expired", "times": 1}]'
	lab_wait 10 eval "((\$(requests_matching ' error GET') > 0))" || die "the agent did not resume its watch"
	lab_wait 10 eval "((\$(lists) > $before))" || die "REL-31: no list after an ERROR event with code 410"
	WITHIN=10 becomes "REL-31: 410 as an event" "$ALL" state
	# The next change is after the list.
	endpoints pod a c
	WITHIN=10 becomes "and a change" "$WITHOUT_B" state
	(($(written) == writes + 1)) || die "REL-31: for one change the agent has written $(($(written) - writes)) times"
	endpoints pod a b c
	WITHIN=10 becomes "and back" "$ALL" state
}

# REL-76: a server with old data, to whose probes and lists a 410 leads the agent; the agent does not go back in time.
past() {
	local expired='{"match": "endpointslices.*resourceVersion=[1-9]", "answer": 410, "times": 1}'
	cut_streams "[$expired, {\"match\": \"endpointslices.*limit=1(&|$)\", \"record\": \"probe\"},
		{\"match\": \"endpointslices.*sendInitialEvents\", \"record\": \"list\"}]"
	lab_wait 20 eval '(($(requests_matching " record GET.*sendInitialEvents") > 0))' || die "the agent requested no list"
	becomes "a list" "$ALL" state
	endpoints pod a c
	WITHIN=10 becomes "a change" "$WITHOUT_B" state
	cut_streams '[{"match": "endpointslices.*limit=1(&|$)", "replay": "probe"},
		{"match": "endpointslices.*sendInitialEvents", "replay": "list"},
		{"match": "endpointslices", "answer": 410}]'
	lab_wait 20 eval '(($(requests_matching " replay GET") > 0))' || die "the agent sent no request"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[[ $(state) == "$WITHOUT_B" ]] || die "REL-76: back in time: $(state)"
		sleep 0.2
	done
	printf 'REL-76: an answer from the past changes nothing\n'
	cut_streams
	endpoints pod a b c
	WITHIN=30 becomes "and on" "$ALL" state
}

# REL-78: one list is delayed; before it has come, the agent writes nothing and health is not green.
gate() {
	lab_maps >"$LAB_DIR/before"
	lab_stop "$LAB_AGENT" KILL || true
	endpoints pod a c
	rules "[{\"match\": \"endpointslices\", \"hold\": $((HELD + 4))}]"
	cluster_agent_starts
	sleep "$HELD"
	[[ $(healthz) != 200 ]] || die "REL-78: healthy without having seen a slice"
	lab_maps >"$LAB_DIR/during"
	diff "$LAB_DIR/before" "$LAB_DIR/during" || die "REL-78: wrote before all lists were there"
	rules '[]'
	# The request that is delayed then times out after half a minute of silence, and is retried after a pause.
	WITHIN=60 becomes "REL-78: written when the last list has come" "$WITHOUT_B" state
	lab_wait 5 eval '[[ $(healthz) == 200 ]]' || die "not healthy after all lists have come"
	endpoints pod a b c
	becomes "and back" "$ALL" state
}

cluster_up away
cluster_web by-hand
endpoints pod a b c
lab_backends
cluster_proxy "$PORT"
agent_account
AGENT_KUBECONFIG=$CLUSTER/proxied.conf
kubeconfig "$AGENT_KUBECONFIG" "https://10.0.0.2:$PORT" "token $CLUSTER/token"
cluster_agent
WITHIN=10 becomes "four endpoints" "$ALL" state
lab_traffic pod 10.96.0.80 80
away
compacted
expired_event
past
gate
lab_traffic_ends
