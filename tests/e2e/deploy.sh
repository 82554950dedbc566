#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2119  # conditions are evaluated when they are checked; options are for those who have some
# k8s/deploy: a real API server accepts all of it, and the agent runs as the DaemonSet specifies, in its image's root, with
# its capabilities and its service account: REL-54, REL-55, SEM-77.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

DEPLOY=$SLUICE_ROOT/k8s/deploy

# resources: the files that the kustomization lists; checks that the directory has no others.
resources() {
	local -a named
	mapfile -t named < <(sed -n '/^resources:/,/^[^ ]/s/^  - //p' "$DEPLOY/kustomization.yaml")
	diff <(printf '%s\n' "${named[@]}" kustomization.yaml | sort) <(cd "$DEPLOY" && printf '%s\n' *.yaml | sort) >&2 ||
		die "kustomization.yaml does not name the files of k8s/deploy"
	printf '%s\n' "${named[@]}"
}

accepted() {
	local file
	for file in $(resources); do
		kube check <"$DEPLOY/$file"
		printf 'accepted by a dry run: %s\n' "$file"
	done
	for file in $(resources); do kube apply <"$DEPLOY/$file"; done
}

# overlays_accepted: dry runs of the other manifests, as kubectl would send them; nothing of them is stored.
overlays_accepted() {
	local overlay
	python3 "$E2E/kustomize.py" "$SLUICE_ROOT/k8s/overlays/beside" | kube check
	kube check <"$SLUICE_ROOT/k8s/overlays/stand-alone/sluice.yaml"
	kube check <"$SLUICE_ROOT/k8s/overlays/stand-alone/sluice-uninstall.yaml"
	python3 "$E2E/kustomize.py" "$SLUICE_ROOT/k8s/deploy/uninstall" | kube check
	python3 "$E2E/kustomize.py" "$SLUICE_ROOT/k8s/overlays/textfile" | kube check
	for overlay in beside stand-alone uninstall textfile; do printf 'accepted by a dry run: %s\n' "$overlay"; done
}

# kube_proxy_config: the ConfigMap by which kubeadm gives kube-proxy the API server's own address.
kube_proxy_config() {
	kube apply <<-YAML
		apiVersion: v1
		kind: ConfigMap
		metadata:
		  name: kube-proxy
		  namespace: kube-system
		data:
		  kubeconfig.conf: |
		    apiVersion: v1
		    kind: Config
		    clusters:
		      - {name: default, cluster: {certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt, server: "$API"}}
		    contexts:
		      - {name: default, context: {cluster: default, namespace: default, user: default}}
		    current-context: default
		    users:
		      - {name: default, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}
	YAML
	mkdir -p "$LAB_DIR/kube-proxy" "$LAB_DIR/state"
	kube get ConfigMap/kube-system/kube-proxy | jq -r '.data["kubeconfig.conf"]' >"$LAB_DIR/kube-proxy/kubeconfig.conf"
}

# as_account COMMAND...: runs kube.py with only the account's token.
as_account() { lab_in control env E2E_KUBE="$LAB_DIR/account" python3 "$E2E/kube.py" "$@"; }

# REL-55: the account may read exactly what the agent reads, and post Events. Every account's rights about itself do not
# count.
rights() {
	local path
	mkdir "$LAB_DIR/account"
	cp "$CLUSTER/ca.crt" "$CLUSTER/server" "$LAB_DIR/account"
	kube token kube-system/sluice >"$LAB_DIR/account/token"
	lab_in control curl -fsS --cacert "$CLUSTER/ca.crt" -H "Authorization: Bearer $(cat "$LAB_DIR/account/token")" \
		-H 'Content-Type: application/json' https://127.0.0.1:6443/apis/authorization.k8s.io/v1/selfsubjectrulesreviews \
		-d '{"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"namespace": "kube-system"}}' |
		jq -c '.status.resourceRules[] | select(.resources[0] | startswith("selfsubject") | not)
			| .apiGroups[] as $group | .resources[] as $resource | .verbs[] | [., $group, $resource] | join(" ")' |
		sort >"$LAB_DIR/rights"
	diff "$LAB_DIR/rights" <(for path in ' services' ' nodes' 'discovery.k8s.io endpointslices' 'networking.k8s.io servicecidrs'; do
		printf '"%s '"$path"'"\n' get list watch
	done | cat - <(printf '"create  events"\n"create events.k8s.io events"\n') | sort) ||
		die "REL-55: other rights than these"
	for path in /api/v1/secrets /api/v1/pods /api/v1/configmaps /api/v1/namespaces/kube-system/secrets; do
		! as_account get "$path" >/dev/null 2>"$LAB_DIR/refusal" || die "REL-55: may read $path"
		grep -q ' 403: ' "$LAB_DIR/refusal" || die "REL-55: $path: $(cat "$LAB_DIR/refusal")"
	done
	! as_account patch Node/node '{"metadata": {"labels": {"a": "b"}}}' >/dev/null 2>"$LAB_DIR/refusal" || die "REL-55: may change a Node"
	grep -q ' 403: ' "$LAB_DIR/refusal" || die "REL-55: a Node: $(cat "$LAB_DIR/refusal")"
	printf 'REL-55: reads services, nodes, endpointslices and servicecidrs, creates Events, and no more\n'
}

# container_environment: the environment that the DaemonSet specifies, from the fields and the ConfigMap that it names.
container_environment() {
	jq -r --argjson config "$(kube get ConfigMap/kube-system/sluice)" '
		.spec.template.spec.containers[0].env[] |
		"\(.name)=\(if .valueFrom.configMapKeyRef then $config.data[.valueFrom.configMapKeyRef.key]
			elif .valueFrom.fieldRef.fieldPath == "spec.nodeName" then "node" else error("unknown source") end)"' "$LAB_DIR/daemonset.json"
}

# namespaces_mount: the DaemonSet's mount of network namespaces.
namespaces_mount() {
	jq -r '(.spec.template.spec.volumes[] | select(.name == "netns").hostPath.path) as $path |
		.spec.template.spec.containers[0].volumeMounts[] | select(.name == "netns") |
		"\($path):\(.mountPath)\(if .readOnly then ":ro" else "" end)\(if .mountPropagation == "HostToContainer" then ":slave" else "" end)"' \
		"$LAB_DIR/daemonset.json"
}

# make_image: makes the image that start_container runs.
make_image() {
	kube get DaemonSet/kube-system/sluice >"$LAB_DIR/daemonset.json"
	mkdir -p "$LAB_DIR/image" "$LAB_DIR/secrets" "$LAB_PINS"
	"$SLUICE_ROOT/scripts/lib/image" "$SLUICE" "$LAB_DIR/image"
}

# start_container [whole|no-namespaces|no-capability]: starts the agent as a kubelet and a container runtime do, or without
# one of these.
start_container() {
	local account=/var/run/secrets/kubernetes.io/serviceaccount variable capabilities
	local -a environment arguments namespaces=(--mount "$(namespaces_mount)")
	cp "$CLUSTER/ca.crt" "$LAB_DIR/account/token" "$LAB_DIR/secrets"
	printf kube-system >"$LAB_DIR/secrets/namespace"
	mapfile -t environment < <(container_environment)
	mapfile -t arguments < <(jq -r '.spec.template.spec.containers[0].args[]' "$LAB_DIR/daemonset.json")
	for variable in "${environment[@]}"; do
		arguments=("${arguments[@]//"\$(${variable%%=*})"/"${variable#*=}"}")
	done
	# One argument differs: on a real node one agent serves all pods, here it serves the test's pods only.
	arguments=("${arguments[@]/#--cgroup=\/host\/cgroup/--cgroup=\/host\/cgroup\/$LAB}")
	capabilities=$(jq -r '.spec.template.spec.containers[0].securityContext.capabilities.add | join(",")' "$LAB_DIR/daemonset.json")
	case ${1:-whole} in
	no-namespaces) namespaces=() capabilities=${capabilities/,SYS_PTRACE/} ;; # by which those of processes are seen
	no-capability) capabilities=${capabilities/,SYS_ADMIN/} ;;
	no-ptrace) capabilities=${capabilities/,SYS_PTRACE/} ;;
	esac
	printf 'as the DaemonSet says: sluice %s\n' "${arguments[*]}"
	lab_start node agent.log env -i KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 "${environment[@]}" \
		"$(command -v python3)" "$E2E/container.py" "$LAB_DIR/image" "$capabilities" --mount /proc:/proc --mount /sys:/sys:ro \
		--mount "$LAB_DIR/kube-proxy:/etc/kube-proxy:ro" --mount "$LAB_DIR/state:/var/lib/sluice" \
		--mount "$LAB_PINS:/sys/fs/bpf" --mount "$(cgroup_root):/host/cgroup:ro" --mount /proc/sys:/proc/sys:ro --mount /proc/sys/net/netfilter:/host/netfilter --mount "$LAB_DIR/secrets:$account:ro" \
		${namespaces[@]+"${namespaces[@]}"} -- \
		/usr/bin/sluice "${arguments[@]}"
	LAB_AGENT=$LAB_STARTED
}

# probe NAME: the HTTP status of that probe, at the path and port in the DaemonSet.
probe() {
	local path port
	path=$(jq -r ".spec.template.spec.containers[0].$1.httpGet.path" "$LAB_DIR/daemonset.json")
	port=$(jq -r ".spec.template.spec.containers[0].$1.httpGet.port" "$LAB_DIR/daemonset.json")
	lab_in control curl -s -o /dev/null -w '%{http_code}' -m 2 "http://10.0.0.10:$port$path"
}

# is_alive: runs the kubelet's exec probe.
is_alive() {
	local command
	command=$(jq -r '.spec.template.spec.containers[0].livenessProbe.exec.command | join(" ")' "$LAB_DIR/daemonset.json")
	[[ $command == "/usr/bin/sluice alive" ]] || die "the DaemonSet asks '$command'"
	LAB_PINS=$LAB_PINS/sluice lab_sluice alive >&2 && printf alive
}

# ---- Connected UDP sockets of pods (SEM-46). ----

# dns_is SERVING [ADDRESS]: a UDP service with one endpoint.
dns_is() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: dns, namespace: default}
		spec: {clusterIP: 10.96.0.11, ports: [{name: dns, protocol: UDP, port: 53, targetPort: 5353}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: dns-by-hand, namespace: default, labels: {kubernetes.io/service-name: dns}}
		addressType: IPv4
		ports: [{name: dns, protocol: UDP, port: 5353}]
		endpoints: [{addresses: [${2:-10.244.2.10}], conditions: {ready: $1, serving: $1, terminating: false}}]
	YAML
}

without() { LAB_PINS=$LAB_PINS/sluice lab_sluice status -o json | jq -r .without; }
lacks() { [[ $(without) == *"$1"* ]]; }
lacks_not() { ! lacks "$1"; }

# late_pod: adds a pod while the agent runs, in the cgroup that is served.
late_pod() {
	lab_guest
	# shellcheck disable=SC2016  # expanded inside
	lab_start client "connected-guest.log" bash -c 'echo $$ >"$1/pod/cgroup.procs" && exec nsenter --net="/run/netns/$2-guest" python3 "$3" --as-user 10.96.0.11 53' \
		late "$LAB_CGROUP" "$LAB" "$SLUICE_ROOT/tests/net/lib/connected_udp.py"
}

pods_go_on_and_are_told() {
	local who
	dns_is true
	lab_wait 10 lab_ask pod udp 10.96.0.11 53 || die "the service of datagrams is not served"
	lab_start pod connected-pod.log python3 "$SLUICE_ROOT/tests/net/lib/connected_udp.py" --as-user 10.96.0.11 53
	late_pod
	for who in pod guest; do
		lab_wait 5 grep -q '^answered web-a' "$LAB_DIR/connected-$who.log" || die "$who: no answer: $(cat "$LAB_DIR/connected-$who.log")"
	done
	lab_wait 5 lacks_not 'UDP sockets' || die "status says that sockets cannot be connected again or ended: $(without)"
	dns_is true 10.244.3.10
	for who in pod guest; do
		lab_wait 10 grep -q '^answered web-b' "$LAB_DIR/connected-$who.log" || die "SEM-46: $who does not go on: $(cat "$LAB_DIR/connected-$who.log")"
	done
	dns_is false
	for who in pod guest; do
		lab_wait 5 grep -q '^error' "$LAB_DIR/connected-$who.log" || die "SEM-46: $who got no error: $(cat "$LAB_DIR/connected-$who.log")"
		printf 'SEM-46: %s: %s\n' "$who" "$(tail -n 1 "$LAB_DIR/connected-$who.log")"
	done
}

# reports_unended LESS WORDS: checks what status reports of connected UDP sockets if the container has less than the DaemonSet specifies.
reports_unended() {
	start_container "$1"
	lab_wait 30 lacks "$2" || die "status does not say '$2': $(without)"
	printf '%s: without %s\n' "$1" "$(without)"
	lab_stop "$LAB_AGENT" TERM || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
}

# SEM-55: conntrack's timeout for the state CLOSE_WAIT in the node's namespace.
close_wait() { lab_in node cat /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait; }

cluster_up deploy
accepted
overlays_accepted
kube_proxy_config
rights
cluster_web
cluster_pods
[[ $(close_wait) != 3600 ]] || die "SEM-55: conntrack is as the agent would have it before there is one"
make_image
reports_unended no-capability 'CAP_SYS_ADMIN: connected UDP sockets of pods are not ended'
reports_unended no-ptrace 'socket-reconnect absent: UDP sockets ended'
reports_unended no-namespaces 'sight of 1 network namespaces in /run/netns: their connected UDP sockets are not ended'
start_container
WITHIN=30 becomes "the readiness probe" 200 probe readinessProbe
becomes "the liveness probe" alive is_alive
LAB_PINS=$LAB_PINS/sluice becomes "traffic" "web-a web-b web-c web-pod" answers pod 10.96.0.80 80
[[ $(close_wait) == 3600 ]] || die "SEM-55: conntrack's settings are not written: $(grep conntrack "$LAB_DIR/agent.log")"
[[ $(awk '/^CapEff/ { print $2 }' "/proc/$LAB_AGENT/status") == 000000c000281004 ]] ||
	die "REL-54: other capabilities than BPF, DAC_READ_SEARCH, NET_ADMIN, PERFMON, SYS_ADMIN and SYS_PTRACE"
pods_go_on_and_are_told
[[ $(LAB_PINS=$LAB_PINS/sluice lab_sluice status -o json | jq -r .uplinks) == *"eth0 ("* ]] ||
	die "status does not say why its uplinks are some: $(LAB_PINS=$LAB_PINS/sluice lab_sluice status)"
[[ -s $LAB_DIR/state/api-servers ]] || die "the API servers' addresses are not kept"
lab_stop "$LAB_AGENT" TERM || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
! is_alive 2>/dev/null || die "an agent that has ended is alive"

# The next start knows the API servers from the previous start's cache, although kube-proxy's file is gone and nothing serves
# the ClusterIP.
rm "$LAB_DIR/kube-proxy/kubeconfig.conf"
start_container
WITHIN=60 becomes "the readiness probe" 200 probe readinessProbe
lab_stop "$LAB_AGENT" TERM || die "the agent ended badly: $(tail -n 3 "$LAB_DIR/agent.log")"
