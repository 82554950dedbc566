#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119  # options are for those who have some
# REL-98: monitoring made for kube-proxy keeps working. A real Prometheus scrapes the agent as the job "kube-proxy": each
# panel of the usual dashboard has values, the usual alerts fire when they should and end. Our own alerts pass promtool's
# tests; a real API server with the Prometheus operator's definitions accepts the overlay. REL-97: a node without an agent is
# reported by a real node_exporter, and the next agent posts an Event.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

OVERLAY=$SLUICE_ROOT/k8s/overlays/monitoring
PORT=7443
PROMETHEUS=http://127.0.0.1:9090

own_alerts() {
	python3 -c 'import sys, yaml; print(yaml.safe_dump(yaml.safe_load(sys.stdin)["spec"]))' <"$OVERLAY/alerts.yaml" >"$LAB_DIR/alerts.rules.yaml"
	cp "$E2E/alerts_test.yaml" "$LAB_DIR"
	(cd "$LAB_DIR" && "$MONITORING/promtool" test rules alerts_test.yaml)
}

defined() { kube get "CustomResourceDefinition/$1" | jq -e 'any(.status.conditions[]; .type == "Established" and .status == "True")'; }

overlay_accepted() {
	local name
	cat "$MONITORING"/definitions/*.yaml | kube apply
	for name in podmonitors prometheusrules; do
		lab_wait 20 defined "$name.monitoring.coreos.com" >/dev/null || die "$name is not defined"
	done
	lab_wait 20 overlay_checked || { overlay_checked && die "the overlay is refused, above"; }
	printf 'accepted by a dry run: %s\n' monitoring
}
overlay_checked() { python3 "$E2E/kustomize.py" "$OVERLAY" | kube check; }

prometheus() {
	cp "$E2E/kube_proxy_monitoring.yaml" "$LAB_DIR"
	cat >"$LAB_DIR/prometheus.yaml" <<-YAML
		global: {scrape_interval: 1s, evaluation_interval: 1s}
		rule_files: [kube_proxy_monitoring.yaml]
		scrape_configs:
		  - {job_name: kube-proxy, static_configs: [{targets: ["10.0.0.10:10249"]}]}
		  - {job_name: node, static_configs: [{targets: ["10.0.0.10:9100"]}]}
	YAML
	lab_start control prometheus.log nice -n 5 "$MONITORING/prometheus" --config.file "$LAB_DIR/prometheus.yaml" \
		--storage.tsdb.path "$LAB_DIR/tsdb" --web.listen-address 127.0.0.1:9090
	lab_wait 30 lab_in control curl -fsS -m 2 "$PROMETHEUS/-/ready" || cluster_wrong prometheus
}

query() { lab_in control curl -fsS -m 5 -G --data-urlencode "query=$1" "$PROMETHEUS/api/v1/query" | jq -r '.data.result[].value[1]'; }
firing() { query "count(ALERTS{alertname=\"$1\", alertstate=\"firing\"})"; }

# node_exporter: runs the node's node_exporter, which is independent of the agent, and `sluice alive`, which writes its
# textfile as in k8s/overlays/textfile.
node_exporter() {
	mkdir "$LAB_DIR/textfile"
	lab_start node textfile.log "$SLUICE" alive --pins "$LAB_PINS" --textfile "$LAB_DIR/textfile/sluice.prom" --interval 1
	TEXTFILE=$LAB_STARTED
	lab_start node node-exporter.log "$MONITORING/prometheus-node-exporter" --web.listen-address 10.0.0.10:9100 \
		--collector.disable-defaults --collector.textfile --collector.textfile.directory "$LAB_DIR/textfile"
	lab_wait 10 test -s "$LAB_DIR/textfile/sluice.prom" || die "no textfile: $(cat "$LAB_DIR/textfile.log")"
	"$MONITORING/promtool" check metrics <"$LAB_DIR/textfile/sluice.prom" || die "promtool does not like $(cat "$LAB_DIR/textfile/sluice.prom")"
}

absences() {
	kube get /api/v1/namespaces/default/events | jq -r '.items[] |
		select(.reportingComponent == "sluice" and .reason == "AgentWasAbsent") | "\(.involvedObject.kind)/\(.involvedObject.name)"'
}

# each_panel: whether all panels have a numeric value; prints the values.
each_panel() {
	local panel value
	for panel in "${PANELS[@]}"; do
		value=$(query "$panel")
		[[ $value =~ ^[0-9] ]] || { printf '%s: %s\n' "$panel" "${value:-nothing}" && return 1; }
		printf '%s: %s\n' "$panel" "$value"
	done
}

# A server without streaming lists, as before 1.34: the remaining requests are watches, whose duration is meaningless.
ALL_WELL='[{"match": "sendInitialEvents", "answer": 422}]'

# list_again: makes the watched version too old, so that the agent lists again.
list_again() {
	rules '[{"match": "sendInitialEvents", "answer": 422},
		{"match": "endpointslices.*resourceVersion=[1-9]", "error": 410, "reason": "Expired", "times": 1},
		{"match": "endpointslices", "now": "cut"}]'
	sleep 0.3
	rules "$ALL_WELL"
}

# triggered NUMBER: a slice with the trigger time annotation, as the controller writes it.
triggered() {
	kube apply <<-YAML
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: triggered-1
		  namespace: default
		  labels: {kubernetes.io/service-name: triggered}
		  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "$(date -u +%Y-%m-%dT%H:%M:%SZ)"}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: [10.244.9.$(($1 % 250 + 1))]}]
	YAML
}

# changes: changes endpoints and services until it is stopped.
changes() {
	local number=0
	while sleep 1; do
		number=$((number + 1))
		((number % 5 != 0)) || list_again
		triggered "$number"
		cluster_service "another-$((number % 2))" "10.96.2.$((number % 2 + 1))"
	done
}

MONITORING=${MONITORING:-$("$SLUICE_ROOT/scripts/lib/monitoring")}
mapfile -t PANELS < <(sed -n 's/.*record: "\?\(panel:[a-z0-9_]*\).*/\1/p' "$E2E/kube_proxy_monitoring.yaml")
((${#PANELS[@]} == 9)) || die "found ${#PANELS[@]} panels"

cluster_up monitoring
own_alerts
overlay_accepted
cluster_web
cluster_pods
cluster_service triggered 10.96.3.1
cluster_proxy "$PORT"
agent_account
AGENT_KUBECONFIG=$CLUSTER/proxied.conf AGENT_METRICS=10.0.0.10:10249
kubeconfig "$AGENT_KUBECONFIG" "https://10.0.0.2:$PORT" "token $CLUSTER/token"
rules "$ALL_WELL"
cluster_agent
node_exporter
prometheus

changes >"$LAB_DIR/changes.log" 2>&1 &
CHANGES=$!
lab_wait 90 each_panel || { each_panel || true; die "a panel of the dashboard has no figure"; }
each_panel
kill "$CHANGES"
wait "$CHANGES" 2>/dev/null || true
rules "$ALL_WELL"
[[ -z $(firing KubeProxyDown)$(firing KubeClientErrors) ]] || die "an alert fires while all is well"

rules '[{"match": ".", "now": "cut"}, {"match": ".", "answer": 503}]'
WITHIN=60 becomes "errors of the API: KubeClientErrors" 1 firing KubeClientErrors
rules "$ALL_WELL"
WITHIN=90 becomes "they are over" "" firing KubeClientErrors

WITHIN=30 becomes "REL-97: an agent runs: sluice_agent_absent" 0 query sluice_agent_absent
lab_stop "$LAB_AGENT" KILL || true
WITHIN=30 becomes "REL-97: no agent: sluice_agent_absent" 1 query sluice_agent_absent
WITHIN=30 becomes "no agent: KubeProxyDown" 1 firing KubeProxyDown
# As after a long absence: the modification time of the pins' directory is the last heartbeat.
touch -d '10 minutes ago' "$LAB_PINS"/v*
cluster_agent
WITHIN=30 becomes "REL-97: an agent runs again: sluice_agent_absent" 0 query sluice_agent_absent
WITHIN=30 becomes "it is back" "" firing KubeProxyDown
WITHIN=30 becomes "REL-97: it tells of the time without one" Node/node absences
lab_stop "$TEXTFILE" TERM || die "alive ends badly: $(cat "$LAB_DIR/textfile.log")"
[[ ! -e $LAB_DIR/textfile/sluice.prom ]] || die "who writes the textfile no more leaves it"
