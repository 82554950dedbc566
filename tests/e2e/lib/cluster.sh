# SPDX-License-Identifier: Apache-2.0
# A control plane of real binaries, added to the lab of scripts/lib/netlab.sh. Sourced after it, as root.
# shellcheck shell=bash disable=SC2034  # the caller uses the variables that cluster_up sets
#
#   cluster_up NAME            starts the lab, and in a namespace `control` (10.0.0.2, fd00:10::2) etcd, kube-apiserver and
#                              kube-controller-manager with the controllers that make slices; creates the lab's four nodes
#   cluster_down               ends and removes everything; safe to call twice
#   kube COMMAND...            runs tests/e2e/lib/kube.py against the API server
#   cluster_agent [OPTION...]  starts the agent on node with the API server as its source; waits until it serves
#   cluster_web [by-hand]      creates the service default/web at 10.96.0.80, with the pods of cluster_pods or with hand-written slices
#   cluster_service NAME ADDRESS [METADATA]   creates a service with one port, 80, for hand-written slices; METADATA: more fields
#   cluster_pods               creates pods web-pod, web-a, web-b and web-c (label app=web), and starts their servers
#   cluster_etcd, cluster_api, cluster_controllers    start one partner; its pid is in CLUSTER_ETCD, …
#   cluster_kube_proxy MODE [DIRECTORY]   starts the real kube-proxy on node, and waits until it is healthy; programs in DIRECTORY
#                              take precedence; its pid is in KUBE_PROXY
#   cluster_publish_zone ZONE  sends a kube-proxy that has just started an event with the zone of node
#   cluster_proxy PORT         starts tests/e2e/lib/proxy.py in front of the API server; its rules are in $CLUSTER/rules.json
#   kubeconfig FILE SERVER CREDENTIALS   writes a kubeconfig; CREDENTIALS: "token FILE" or "certificate NAME"
#   load_up NAME               cluster_up with web, its pods, the agent and traffic, and a service default/big for hand-written slices
#   load create|delete|update ...             runs tests/e2e/lib/load.py: many services, many changes
#   programmed, count          print the number of load's service ports in the maps; the number of endpoints of default/big
#   becomes WHAT WANTED COMMAND...            waits $WITHIN seconds (3), longer on a busy machine, until COMMAND prints WANTED
#
# $CLUSTER has certificates and kubeconfigs, $LAB_DIR the logs. PARTNERS is the directory of the binaries, ETCD the name of another
# etcd in it, API_ADDRESS the API server's address if it is not 10.0.0.2, AGENT_XDP the mode of XDP if it is not off (native needs
# `lab_offload off`).

PARTNERS=${PARTNERS:-}
CLUSTER='' KUBE_PROXY='' CLUSTER_ETCD='' CLUSTER_API='' CLUSTER_CONTROLLERS='' CLUSTER_PROXY=''
CONTROLLERS=endpointslice-controller,endpointslice-mirroring-controller,serviceaccount-controller
CONTROLLERS+=,namespace-controller,service-cidr-controller
# Small maps, which are created and filled quickly.
AGENT_SIZES=(--max-frontends 4096 --max-services 1024 --max-backends 8192 --max-slots 16384 --max-flows 16384
	--max-unassured 16384)
E2E=$SLUICE_ROOT/tests/e2e/lib
API=https://10.0.0.2:6443
SERVICE_RANGES=10.96.0.0/16,fd00:10:96::/112

kube() { lab_in control env E2E_KUBE="$CLUSTER" python3 "$E2E/kube.py" "$@"; }

# certificate NAME SUBJECT [NAMES]: makes NAME.key and NAME.crt, signed by the cluster's authority.
certificate() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-CA "$CLUSTER/ca.crt" -CAkey "$CLUSTER/ca.key" -keyout "$CLUSTER/$1.key" -out "$CLUSTER/$1.crt" \
		-subj "$2" -addext basicConstraints=critical,CA:FALSE \
		-addext "extendedKeyUsage=serverAuth,clientAuth" ${3:+-addext "subjectAltName=$3"} 2>/dev/null
}

cluster_certificates() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-keyout "$CLUSTER/ca.key" -out "$CLUSTER/ca.crt" -subj /CN=e2e -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
	certificate server /CN=kube-apiserver \
		"IP:127.0.0.1,IP:::1,IP:10.0.0.2,IP:fd00:10::2,IP:10.96.0.1,DNS:localhost${NAMES_OF_SERVER:+,$NAMES_OF_SERVER}"
	certificate admin /O=system:masters/CN=admin
	certificate controllers /O=system:masters/CN=system:kube-controller-manager
	certificate kube-proxy /CN=system:kube-proxy
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$CLUSTER/accounts.key" 2>/dev/null
	openssl pkey -in "$CLUSTER/accounts.key" -pubout -out "$CLUSTER/accounts.pub" 2>/dev/null
	printf 'https://127.0.0.1:6443\n' >"$CLUSTER/server"
}

kubeconfig() {
	local user
	case $3 in
	token\ *) user="tokenFile: ${3#token }" ;;
	certificate\ *)
		user="client-certificate: $CLUSTER/${3#certificate }.crt, client-key: $CLUSTER/${3#certificate }.key"
		;;
	esac
	cat >"$1" <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: e2e, cluster: {server: "$2", certificate-authority: $CLUSTER/ca.crt}}]
		users: [{name: e2e, user: {$user}}]
		contexts: [{name: e2e, context: {cluster: e2e, user: e2e}}]
		current-context: e2e
	YAML
}

# partner NAME OPTION...: starts one of the binaries in the control namespace; its pid is in $LAB_STARTED.
partner() { lab_start control "$1.log" nice -n 5 "$PARTNERS/$1" "${@:2}"; }

cluster_etcd() {
	partner "${ETCD:-etcd}" --data-dir "$CLUSTER/etcd" --unsafe-no-fsync --log-level warn \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
		--initial-cluster default=http://127.0.0.1:2380
	CLUSTER_ETCD=$LAB_STARTED
	lab_wait 30 lab_in control curl -fsS -m 2 http://127.0.0.1:2379/health || cluster_wrong "${ETCD:-etcd}"
}

cluster_api() {
	partner kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address :: --secure-port 6443 \
		--advertise-address "${API_ADDRESS:-10.0.0.2}" --service-cluster-ip-range "$SERVICE_RANGES" --service-node-port-range 30000-32767 \
		--tls-cert-file "$CLUSTER/server.crt" --tls-private-key-file "$CLUSTER/server.key" --client-ca-file "$CLUSTER/ca.crt" \
		--service-account-issuer https://kubernetes.default.svc --service-account-key-file "$CLUSTER/accounts.pub" \
		--service-account-signing-key-file "$CLUSTER/accounts.key" --authorization-mode Node,RBAC --allow-privileged=true \
		--kubelet-preferred-address-types InternalIP --shutdown-delay-duration 0s
	CLUSTER_API=$LAB_STARTED
	lab_wait 90 kube ready || cluster_wrong kube-apiserver
}

cluster_controllers() {
	partner kube-controller-manager --kubeconfig "$CLUSTER/controllers.conf" --leader-elect=false --secure-port 0 \
		--controllers "$CONTROLLERS" --service-account-private-key-file "$CLUSTER/accounts.key" \
		--root-ca-file "$CLUSTER/ca.crt" --kube-api-qps 200 --kube-api-burst 400
	CLUSTER_CONTROLLERS=$LAB_STARTED
}

# cluster_wrong NAME: fails because a partner did not start.
cluster_wrong() {
	tail -n 40 "$LAB_DIR/$1.log"
	die "cannot start $1; the last lines of its log are above."
}

# cluster_node NAME ZONE NUMBER PODS: prints a Node object as the node's kubelet writes it.
cluster_node() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Node
		metadata:
		  name: $1
		  labels: {kubernetes.io/hostname: $1, kubernetes.io/os: linux, topology.kubernetes.io/zone: $2}
		spec:
		  podCIDR: 10.244.$4.0/24
		  podCIDRs: [10.244.$4.0/24, "fd00:10:244:$4::/64"]
	YAML
}

# cluster_node_status NAME ZONE NUMBER PODS: writes the status that the kubelet writes: addresses, and the CPUs on which
# topology hints depend.
cluster_node_status() {
	kube patch "Node/$1" --status "{\"status\": {
		\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"10.0.0.$3\"},
			{\"type\": \"InternalIP\", \"address\": \"fd00:10::$3\"}, {\"type\": \"Hostname\", \"address\": \"$1\"}],
		\"allocatable\": {\"cpu\": \"4\", \"memory\": \"8Gi\", \"pods\": \"110\"},
		\"capacity\": {\"cpu\": \"4\", \"memory\": \"8Gi\", \"pods\": \"110\"},
		\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\", \"reason\": \"KubeletReady\", \"message\": \"e2e\"}]}}"
}

# each_node FUNCTION: calls FUNCTION with the properties of each of the four nodes.
each_node() {
	"$1" node zone-a 10 1
	"$1" worker-a zone-a 21 2
	"$1" worker-b zone-b 22 3
	"$1" worker-c zone-c 23 4
}

# cluster_namespace: makes the namespace `control` for the partners, on the lab's bridge.
cluster_namespace() {
	lab_namespace control
	ip -n "$LAB-net" link add to-control type veth peer name eth0 netns "$LAB-control"
	ip -n "$LAB-net" link set to-control master bridge up
	ip -n "$LAB-control" link set eth0 up
	ip -n "$LAB-control" address add 10.0.0.2/24 dev eth0
	ip -n "$LAB-control" address add fd00:10::2/64 dev eth0 nodad
}

cluster_up() {
	[[ -n $PARTNERS ]] || PARTNERS=$("$SLUICE_ROOT/scripts/lib/partners")
	lab_up "$1"
	CLUSTER=$LAB_DIR/cluster
	mkdir "$CLUSTER"
	cluster_namespace
	cluster_certificates
	kubeconfig "$CLUSTER/controllers.conf" https://127.0.0.1:6443 "certificate controllers"
	kubeconfig "$CLUSTER/agent.conf" "$API" "certificate admin"
	cluster_etcd
	cluster_api
	cluster_controllers
	each_node cluster_node | kube apply
	each_node cluster_node_status
	lab_wait 30 kube get ServiceAccount/default/default || cluster_wrong kube-controller-manager
}

cluster_down() {
	local code=$? name=$LAB
	if ((code != 0)) && [[ -n $LAB_DIR && -s $LAB_DIR/agent.log ]]; then
		printf 'the last lines of the agent'\''s log:\n'
		tail -n 30 "$LAB_DIR/agent.log" | cut -c1-400
	fi
	lab_down
	[[ -z $name ]] || ip netns delete "$name-control" 2>/dev/null || true
	CLUSTER=''
}

# cluster_agent_starts [OPTION...]: like cluster_agent, but does not wait.
cluster_agent_starts() {
	lab_start node agent.log "$SLUICE" agent --kubeconfig "${AGENT_KUBECONFIG:-$CLUSTER/agent.conf}" --node node --devices eth0 \
		--xdp "${AGENT_XDP:-off}" --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --health 127.0.0.1:10256 --metrics "${AGENT_METRICS:-127.0.0.1:10249}" \
		--topology-labels topology.kubernetes.io/region,topology.kubernetes.io/zone,kubernetes.io/hostname,e2e/rack \
		"${AGENT_SIZES[@]}" "$@"
	LAB_AGENT=$LAB_STARTED
}

cluster_agent() {
	cluster_agent_starts "$@"
	if ! lab_wait 120 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz; then
		die "the agent did not become ready."
	fi
}

# pod_at NAME: prints the node and the pod network number of a pod of the lab.
pod_at() {
	case $1 in
	web-pod) echo node 1 ;;
	web-*) echo "worker-${1#web-}" "$(lab_pod_network "worker-${1#web-}")" ;;
	esac
}

# cluster_pod NAME [OPTION...]: creates a Pod object as its kubelet reports it.
cluster_pod() {
	local node number
	read -r node number < <(pod_at "$1")
	kube pod "$1" "$node" "10.244.$number.10" "fd00:10:244:$number::10" app=web "${@:2}"
}

cluster_pods() {
	local name
	lab_backends
	for name in web-pod web-a web-b web-c; do cluster_pod "$name"; done
}

cluster_web() {
	local selector='selector: {app: web}'
	[[ ${1:-} != by-hand ]] || selector=''
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: web, namespace: default}
		spec:
		  $selector
		  clusterIP: 10.96.0.80
		  ports: [{name: http, port: 80, targetPort: 8080}]
	YAML
}

cluster_service() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default${3:+, $3}}
		spec: {clusterIP: $2, ports: [{name: http, port: 80}]}
	YAML
}

load_up() {
	cluster_up "$1"
	cluster_web
	cluster_service big 10.96.0.81
	cluster_pods
	cluster_agent
	lab_wait 10 eval '[[ $(family4 default/web:) == *10.244.4.10* ]]' || die "the agent has no backends of the pods"
	lab_traffic pod 10.96.0.80 80
}

load() { lab_in control env E2E_KUBE="$CLUSTER" python3 "$E2E/load.py" "$@"; }
programmed() { lab_sluice services -o json | jq '[.[] | select(.service | startswith("default/load-"))] | length'; }
count() { lab_sluice backends default/big -o json | jq '[.[] | select(.inClusterSet)] | length'; }

# kube-proxy uses other ports than the agent, so that both can run.
cluster_kube_proxy() {
	kubeconfig "$CLUSTER/kube-proxy.kubeconfig" "$API" "certificate kube-proxy"
	cat >"$CLUSTER/kube-proxy.conf" <<-YAML
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		clientConnection: {kubeconfig: $CLUSTER/kube-proxy.kubeconfig}
		mode: $1
		nftables: {minSyncPeriod: 10ms, syncPeriod: 30s}
		iptables: {minSyncPeriod: 10ms, syncPeriod: 30s, localhostNodePorts: false}
		hostnameOverride: node
		clusterCIDR: 10.244.0.0/16,fd00:10:244::/48
		detectLocalMode: ClusterCIDR
		nodePortAddresses: [primary]
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
		healthzBindAddress: 127.0.0.1:10356
		metricsBindAddress: 127.0.0.1:10349
	YAML
	lab_start node kube-proxy.log env "PATH=${2:+$2:}$PATH" "$PARTNERS/kube-proxy" --config "$CLUSTER/kube-proxy.conf"
	KUBE_PROXY=$LAB_STARTED
	lab_wait 60 lab_in node curl -fsS -m 2 http://127.0.0.1:10356/healthz || cluster_wrong kube-proxy
	cluster_publish_zone zone-a
}

# cluster_iptables MODE: prints a directory, for kube-proxy's PATH, in which `iptables` and its siblings are the nft variant, for iptables-legacy
# the legacy variant, and for iptables-newest and nftables-newest, with nft, those of Debian's newest release.
cluster_iptables() {
	local name each kind=nft
	if [[ $1 == *-newest ]]; then
		newest_netfilter_tools
		return
	fi
	[[ $1 != iptables-legacy ]] || kind=legacy
	mkdir -p "$LAB_DIR/$1"
	for name in iptables ip6tables; do
		for each in "$name" "$name-save" "$name-restore"; do
			ln -sf "$(command -v "xtables-$kind-multi")" "$LAB_DIR/$1/$each"
		done
	done
	printf '%s\n' "$LAB_DIR/$1"
}

# newest_netfilter_tools: the directory of the nft variants of Debian's newest release (scripts/lib/netfilter-tools).
newest_netfilter_tools() {
	local directory
	[[ -n ${NETFILTER_TOOLS:-} ]] || NETFILTER_TOOLS=$("$SLUICE_ROOT/scripts/lib/netfilter-tools")
	directory=$(awk 'NF == 2 { found = $2 } END { print found }' <<<"$NETFILTER_TOOLS")
	[[ -n $directory ]] || die "there is no iptables of any release here; run scripts/lib/netfilter-tools with a network."
	printf '%s/nft\n' "$directory"
}

# proxy_mode MODE: kube-proxy's own name of a mode.
proxy_mode() { printf '%s\n' "${1%%-*}"; }

# cluster_publish_zone ZONE: changes node's zone and sets it to ZONE, so that kube-proxy receives an event. kube-proxy (1.36.3, 1.37.2) may miss
# the zone that its Node has at the start, and then ignores zone hints: its informer already runs when NodeTopologyConfig subscribes, and the
# first event may arrive before the proxier is registered (pkg/proxy/config/config.go).
cluster_publish_zone() {
	kube patch Node/node '{"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-unknown"}}}'
	kube patch Node/node "{\"metadata\": {\"labels\": {\"topology.kubernetes.io/zone\": \"$1\"}}}"
}

cluster_proxy() {
	[[ -e $CLUSTER/rules.json ]] || printf '[]\n' >"$CLUSTER/rules.json"
	lab_start control proxy.log python3 "$E2E/proxy.py" "$1" "$CLUSTER"
	CLUSTER_PROXY=$LAB_STARTED
	lab_wait 10 lab_in control python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 1)" ||
		cluster_wrong proxy
}

# backends_of SERVICE: prints the sorted addresses in the service's cluster set.
backends_of() {
	lab_sluice backends "$1" -o json 2>/dev/null | jq -r '[.[] | select(.inClusterSet) | "\(.address):\(.port)"] | sort | join(" ")'
}

milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# becomes WHAT WANTED COMMAND...: waits until COMMAND prints WANTED, at most $WITHIN seconds (3), and prints how long that
# took. On a busy machine it still tries at least five times for each of those seconds.
becomes() {
	local what=$1 wanted=$2 start found='' tries=0
	start=$(milliseconds)
	shift 2
	while :; do
		found=$("$@" 2>/dev/null) || true
		[[ $found != "$wanted" ]] || break
		tries=$((tries + 1))
		(($(milliseconds) - start < ${WITHIN:-3} * 1000 || tries < ${WITHIN:-3} * 5)) || die "$what: wanted '$wanted', found '$found'"
		sleep 0.05
	done
	printf '%s: %s (%d ms)\n' "$what" "$wanted" $(($(milliseconds) - start))
}

# rules JSON: sets the proxy's rules, atomically.
rules() {
	printf '%s\n' "$1" >"$CLUSTER/rules.new"
	mv "$CLUSTER/rules.new" "$CLUSTER/rules.json"
}

# requests_matching EXPRESSION: prints the number of matching requests in the proxy's log, whose lines are "TIME ACTION GET PATH".
requests_matching() { grep -cE -- "$1" "$LAB_DIR/proxy.log" || true; }

# agent_account: creates the agent's service account, and a token for it in $CLUSTER/token.
agent_account() {
	kube apply <"$SLUICE_ROOT/k8s/deploy/account.yaml"
	kube token kube-system/sluice >"$CLUSTER/token"
}

# family4 SERVICE: prints the IPv4 backends in the service's cluster set.
family4() { backends_of "$1" | tr ' ' '\n' | grep -v '\[\|:.*:' | paste -sd ' '; }

# answers WHO ADDRESS PORT: prints the backends that reply to 40 connections, none of which may fail.
answers() { lab_ask "$1" tcp "$2" "$3" --count 40 --json | jq -r '.answers | keys | join(" ")'; }

has_service() { lab_sluice services -o json | jq --arg name "$1" 'any(.[]; .service | startswith($name))'; }
