#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# The agent's rights: kube-proxy's own, those of system:node-proxier, suffice (SEM-77), and if one of
# k8s/deploy/account.yaml's is missing, the log names it and known services keep working (REL-77).
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

PORT=7443
ALL="web-a web-b web-c web-pod"
APPLY='k8s/deploy/account.yaml grants'

# greedy NAME ADDRESS: a Service that exceeds the limits, on which the agent posts an Event.
greedy() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default}
		spec:
		  selector: {app: web}
		  clusterIP: $2
		  externalIPs: [$(seq -s, -f "198.18.${2##*.}.%g" 1 70)]
		  ports: [{name: http, port: 80, targetPort: 8080}]
	YAML
}

# events_of NAME: the reasons of the agent's Events on that Service.
events_of() {
	kube get /api/v1/namespaces/default/events |
		jq -r --arg name "$1" '.items[] | select(.reportingComponent == "sluice" and .involvedObject.name == $name).reason'
}

# refusals: how many of the agent's requests were forbidden, by its own metric.
refusals() {
	lab_in node curl -fsS -m 2 http://127.0.0.1:10249/metrics |
		awk '/^rest_client_requests_total\{code="403"/ { sum += $NF } END { print sum + 0 }'
}

node_proxier() {
	kubeconfig "$CLUSTER/node-proxier.conf" "$API" "certificate kube-proxy"
	AGENT_KUBECONFIG=$CLUSTER/node-proxier.conf cluster_agent --max-service-frontends 60
	becomes "SEM-77: served by the rights of system:node-proxier" "$ALL" answers pod 10.96.0.80 80
	greedy first 10.96.0.91
	becomes "an Event by them" TooManyFrontends events_of first
	[[ $(refusals) == 0 ]] || die "requests that system:node-proxier may not make: $(grep 403 "$LAB_DIR/agent.log")"
	! grep -w 403 "$LAB_DIR/agent.log" || die "refused: above"
	lab_stop "$LAB_AGENT" TERM || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
}

# may VERB PATH: whether the agent's account has that right, according to the API server.
may() {
	local group=${2%/*} resource=${2##*/}
	[[ $group != "$2" ]] || group=''
	lab_in control curl -fsS --cacert "$CLUSTER/ca.crt" -H "Authorization: Bearer $(cat "$CLUSTER/token")" \
		-H 'Content-Type: application/json' https://127.0.0.1:6443/apis/authorization.k8s.io/v1/selfsubjectaccessreviews -d \
		"{\"kind\": \"SelfSubjectAccessReview\", \"apiVersion\": \"authorization.k8s.io/v1\", \"spec\": {\"resourceAttributes\":
			{\"verb\": \"$1\", \"group\": \"$group\", \"resource\": \"$resource\", \"namespace\": \"default\"}}}" |
		jq -e .status.allowed
}
may_not() { ! may "$@"; }

# complains WORDS...: whether a log line since the log was emptied contains all of them.
complains() {
	local words found
	found=$(cat "$LAB_DIR/agent.log")
	for words; do found=$(grep -F -- "$words" <<<"$found"); done
}

# rules_but RESOURCE: the role's rules without the one for RESOURCE; all rules if there is no such one.
rules_but() { jq -c --arg without "$1" '{rules: [.rules[] | select(.resources | index($without) | not)]}' "$CLUSTER/role.json"; }

# taken VERB GROUP/RESOURCE: removes the rule that grants that from the role.
taken() {
	: >"$LAB_DIR/agent.log"
	kube patch ClusterRole/sluice "$(rules_but "${2##*/}")"
	lab_wait 20 may_not "$1" "$2" || die "the API server still allows to $1 $2"
}

# given VERB GROUP/RESOURCE: restores all rules.
given() {
	kube patch ClusterRole/sluice "$(rules_but none)"
	lab_wait 20 may "$1" "$2" || die "the API server does not allow to $1 $2"
}

# serves_without WHAT: checks that the service works, and prints the log line that says what to apply.
serves_without() {
	[[ $(answers pod 10.96.0.80 80) == "$ALL" ]] || die "REL-77: without $1: $(answers pod 10.96.0.80 80) answer"
	printf 'REL-77: serves without %s: %s\n' "$1" "$(grep -m 1 -F "$APPLY" "$LAB_DIR/agent.log" | cut -d' ' -f 3- | cut -c1-300)"
}

# no_list RESOURCE...: checks that the log reports each missing right.
no_list() {
	local resource
	for resource; do
		lab_wait 20 complains "/$resource: the server answers 403" "resource \"$resource\" in API group" "$APPLY what the agent reads" ||
			die "REL-77: no complaint about $resource: $(tail -n 5 "$LAB_DIR/agent.log")"
	done
	serves_without "the right to list $*"
}

healthz() { lab_in node curl -s -o /dev/null -w '%{http_code}' -m 2 http://127.0.0.1:10256/healthz; }
is_healthy() { [[ $(healthz) == 200 ]] || die "REL-77: /healthz says $(healthz) $1"; }

# while_it_runs: removes the right, and ends the streams that were granted by it.
while_it_runs() {
	taken list services
	rules '[{"match": "/(services|nodes)", "now": "cut"}]'
	sleep 0.3
	rules '[]'
	no_list services nodes
	is_healthy "because a right went"
	given list services
	taken create events
	greedy second 10.96.0.92
	WITHIN=20 becomes "REL-77: a change comes through" true has_service default/second
	lab_wait 20 complains "an event could not be posted" "answer 403, the right to create events is missing" "$APPLY it" ||
		die "REL-77: no complaint about Events: $(tail -n 5 "$LAB_DIR/agent.log")"
	serves_without "the right to create events"
	is_healthy "because a right went"
	given create events
	greedy third 10.96.0.93
	becomes "REL-77: an Event with the right given back" TooManyFrontends events_of third
}

# at_a_start GROUP/RESOURCE NAME...: starts an agent without the right on the previous agent's maps.
at_a_start() {
	lab_stop "$LAB_AGENT" TERM || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
	taken list "$1"
	cluster_agent_starts --max-service-frontends 60
	no_list "${@:2}"
	given list "$1"
	WITHIN=30 becomes "REL-77: ready with the right given back" 200 healthz
}

cluster_up rights
cluster_web
cluster_pods
node_proxier
agent_account
kube get ClusterRole/sluice >"$CLUSTER/role.json"
cluster_proxy "$PORT"
AGENT_KUBECONFIG=$CLUSTER/account.conf
kubeconfig "$AGENT_KUBECONFIG" "https://10.0.0.2:$PORT" "token $CLUSTER/token"
cluster_agent --max-service-frontends 60
while_it_runs
at_a_start services services nodes
at_a_start discovery.k8s.io/endpointslices endpointslices
at_a_start networking.k8s.io/servicecidrs servicecidrs
