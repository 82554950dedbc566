# SPDX-License-Identifier: Apache-2.0
# A cluster of two nodes with real kubelets and containerd in namespaces, on which manifests run unchanged. Sourced first, as root.
# shellcheck shell=bash disable=SC2034  # the caller uses the variables that nodes_up sets
#
#                      net: one bridge, 10.0.0.0/24 and fd00:10::/64
#       ┌──────────────┬──────────────┬──────────────┐
#     client        control         node-a         node-b        network namespaces, each with eth0
#     .100           .2             .11            .12
#                                   10.244.1.0/24  10.244.2.0/24     pods by the CNI plugin ptp, routed: fd00:10:244:N::/64
#                                   zone-a         zone-b
#
#   nodes_up NAME              starts the control plane of tests/e2e/lib/cluster.sh with all controllers and the scheduler, without nodes
#   node_joins NODE [LINE...]  starts the node's containerd and kubelet; LINEs are added to the kubelet's configuration
#   nodes_down                 ends and removes everything; safe to call twice
#   kubectl ARGUMENT...        the real kubectl, as an administrator
#   lab_in WHO COMMAND...      runs COMMAND in a namespace, on a node (its network, mounts and cgroup), or in a pod: pod/NAME, by kubectl exec
#   lab_start WHO LOG COMMAND...   runs it in the background
#   rolled_out NAME            waits until the DaemonSet kube-system/NAME is up to date and ready on every node
#   pods_of NAME               prints the names of that DaemonSet's pods
#   web                        creates a pod web-NODE on each node, with the servers of scripts/lib/backend.py, and dual-stack services
#                              with load-balancer addresses: web (TCP 80, node port 30080), dns (UDP 53, node port 30053) and here
#                              (TCP 80, node port 30082), whose externalTrafficPolicy is Local
#   web_answers WHEN           checks that pods reach them by ClusterIP, the client by node port, and both by load-balancer address
#   web_clients WHEN           starts long connections to them, from pods and from outside (switch_clients.sh)
#   web_fresh                  starts new connections to them in a loop
#   kubeadm_config MODE        creates the objects that kubeadm creates for kube-proxy: ConfigMap, account and rights
#   kube_proxy_mode MODE       writes the mode into that ConfigMap
#
# A node's cgroup is always version 2, without resource limits. Images are made here; nothing is pulled.

# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/e2e/lib/cluster.sh
source "$SLUICE_ROOT/tests/e2e/lib/cluster.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"
trap 'nodes_down' EXIT

NODES=(node-a node-b)
LAB_WORKERS=(control "${NODES[@]}") # lab_down removes their namespaces
# Controllers that a cluster in namespaces cannot use, of those that the release has: 1.37 has none of the cloud's.
UNUSED_CONTROLLERS=(node-ipam-controller node-route-controller cloud-node-lifecycle-controller)
CLUSTER_LIB=$SLUICE_ROOT/tests/cluster/lib
PAUSE=docker.io/library/pause:lab
KUBE_PROXY_IMAGE=registry.k8s.io/kube-proxy:v1.37.2
declare -A NODE_PIDS=()
NODE_PATH=''

kubectl() { lab_in control "$PARTNERS/kubectl" --kubeconfig "$CLUSTER/admin.conf" "$@"; }

lab_number() {
	case $1 in
	control) echo 2 ;;
	node-a) echo 11 ;;
	node-b) echo 12 ;;
	client) echo 100 ;;
	esac
}

# node_range NODE: prints the number of the node's pod address range.
node_range() { echo $(($(lab_number "$1") - 10)); }

# lab_exec WHO COMMAND...: runs COMMAND in place of this shell.
lab_exec() {
	local who=$1
	shift
	case $who in
	node-*)
		echo "$BASHPID" >"$LAB_CGROUP/$who/cgroup.procs"
		exec nsenter --target "${NODE_PIDS[$who]}" --net --mount --uts --cgroup env "PATH=$NODE_PATH" "$@"
		;;
	pod/*) lab_exec control "$PARTNERS/kubectl" --kubeconfig "$CLUSTER/admin.conf" exec "${who#pod/}" -- "$@" ;;
	*) exec nsenter --net="/run/netns/$LAB-$who" "$@" ;;
	esac
}

lab_in() { (lab_exec "$@"); }

lab_start() {
	lab_exec "$1" "${@:3}" >>"$LAB_DIR/$2" 2>&1 </dev/null &
	LAB_STARTED=$!
	LAB_PIDS+=("$LAB_STARTED")
}

# ---- The nodes. ----

nodes_network() {
	local who
	for who in net client control "${NODES[@]}"; do lab_namespace "$who"; done
	ip -n "$LAB-net" link add bridge type bridge
	ip -n "$LAB-net" link set bridge up
	for who in client control "${NODES[@]}"; do lab_attach "$who"; done
	for who in "${NODES[@]}"; do node_routes "$who"; done
	# One node announces the IPv4 addresses of load balancers, the other the IPv6 addresses.
	ip -n "$LAB-client" route add 203.0.113.0/24 via 10.0.0.11
	ip -n "$LAB-client" route add 2001:db8:113::/64 via fd00:10::12
}

# node_routes NODE: turns on forwarding, and adds routes to the other nodes' pods.
node_routes() {
	local other range number
	nsenter --net="/run/netns/$LAB-$1" bash -c 'cd /proc/sys/net; echo 1 >ipv4/ip_forward; echo 1 >ipv6/conf/all/forwarding'
	for other in "${NODES[@]}"; do
		[[ $other != "$1" ]] || continue
		range=$(node_range "$other") number=$(lab_number "$other")
		ip -n "$LAB-$1" route add "10.244.$range.0/24" via "10.0.0.$number"
		ip -n "$LAB-$1" route add "fd00:10:244:$range::/64" via "fd00:10::$number"
	done
	# Without a route to the service addresses, connect() fails.
	ip -n "$LAB-$1" route add default via 10.0.0.100
	ip -n "$LAB-$1" route add default via fd00:10::100
}

# node_machine NODE: starts the environment of the node's kubelet.
node_machine() {
	local ready=$LAB_DIR/$1.ready
	mkdir -p "$LAB_CGROUP/$1" "$LAB_DIR/$1"
	# shellcheck disable=SC2016  # expanded inside
	bash -c 'echo $$ >"$1" && exec nsenter --net="$2" unshare --mount --uts --cgroup --propagation private "${@:3}"' node \
		"$LAB_CGROUP/$1/cgroup.procs" "/run/netns/$LAB-$1" "$CLUSTER_LIB/node-init" "$1" "$ready" \
		"$SLUICE_ROOT" "$BUILD_ROOT" "$LAB_DIR" >>"$LAB_DIR/$1.log" 2>&1 </dev/null &
	NODE_PIDS[$1]=$!
	LAB_PIDS+=("$!")
	lab_wait 10 test -e "$ready" || cluster_wrong "$1"
}

# ---- Images. ----

# image NAME ENTRYPOINT ROOT: makes $LAB_DIR/images/….tar of a root directory, which containerd imports as NAME.
image() {
	local made=$LAB_DIR/images/${1//[\/:]/_}
	printf 'FROM scratch\nENTRYPOINT %s\n' "$2" >"$made.dockerfile"
	tar --directory "$3" --create . >"$made.layer"
	SOURCE_DATE_EPOCH=0 OCI_GZIP=1 python3 "$SLUICE_ROOT/scripts/lib/oci.py" make "$made.layer" "$made.dockerfile" "$(dpkg --print-architecture)" \
		image:lab "$made.layout"
	sed -i "s|docker.io/library/image:lab|$1|" "$made.layout/index.json"
	tar --directory "$made.layout" --create . >"$made.tar"
	rm -r "$made.layer" "$made.layout"
}

# pause_image: makes the image of all pods' sandboxes, and of pods that run programs of this machine, whose /usr they mount.
pause_image() {
	local root=$LAB_DIR/images/pause each
	mkdir -p "$root"/{usr,etc,tmp,run,sluice,lab}
	for each in bin sbin lib lib64; do ln -s "usr/$each" "$root/$each"; done
	cp "$(command -v busybox)" "$root/busybox"
	image "$PAUSE" '["/busybox", "sleep", "infinity"]' "$root"
}

# kube_proxy_image: makes an image with kube-proxy and the programs that it calls, as Debian's newest release has them. The tag is that of
# kubeadm's DaemonSet, the binary is from PARTNERS.
kube_proxy_image() {
	local root=$LAB_DIR/images/kube-proxy tools each
	tools=$(newest_netfilter_tools)
	cp -a "${tools%/nft}" "$root"
	rm -r "$root"/{nft,legacy}
	mkdir -p "$root"/usr/local/bin "$root"/{etc,tmp,run}
	for each in bin sbin lib lib64; do ln -sfn "usr/$each" "$root/$each"; done
	for each in {iptables,ip6tables}{,-save,-restore}; do ln -sfn xtables-nft-multi "$root/usr/sbin/$each"; done
	cp "$PARTNERS/kube-proxy" "$root/usr/local/bin/"
	image "$KUBE_PROXY_IMAGE" '["/usr/local/bin/kube-proxy"]' "$root"
}

# sluice_image: makes the released image, or takes the archive SLUICE_IMAGE.
sluice_image() {
	if [[ -n ${SLUICE_IMAGE:-} ]]; then
		cp "$SLUICE_IMAGE" "$LAB_DIR/images/"
		return
	fi
	"$SLUICE_ROOT/scripts/package" image --output "$LAB_DIR/images" >"$LAB_DIR/package.log" || die "cannot make the image: $(tail -n 5 "$LAB_DIR/package.log")"
}

ctr() { lab_in "$1" ctr --address /run/containerd/containerd.sock --namespace k8s.io "${@:2}"; }

node_images() {
	local image
	for image in "$LAB_DIR"/images/*.tar; do
		ctr "$1" images import "$image" >>"$LAB_DIR/import-$1.log" 2>&1 || die "$1: containerd refuses $image: $(tail -n 2 "$LAB_DIR/import-$1.log")"
	done
}

# ---- containerd and the kubelet. ----

node_cni() {
	local range
	range=$(node_range "$1")
	mkdir -p "$LAB_DIR/$1/cni"
	cat >"$LAB_DIR/$1/cni/lab.conflist" <<-JSON
		{"cniVersion": "0.4.0", "name": "lab", "plugins": [{"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/cni",
			"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
			"ranges": [[{"subnet": "10.244.$range.0/24"}], [{"subnet": "fd00:10:244:$range::/64"}]]}}]}
	JSON
}

node_containerd() {
	node_cni "$1"
	cat >"$LAB_DIR/$1/containerd.toml" <<-TOML
		version = 2
		disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$PAUSE"
		  tolerate_missing_hugetlb_controller = true
		  disable_hugetlb_controller = true
		  restrict_oom_score_adj = true
		  cni = {bin_dir = "$CONTAINERD/usr/lib/cni", conf_dir = "$LAB_DIR/$1/cni"}
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		  runtime_type = "io.containerd.runc.v2"
		  options = {BinaryName = "$CLUSTER_LIB/runc"}
	TOML
	lab_start "$1" "containerd-$1.log" containerd --config "$LAB_DIR/$1/containerd.toml"
	lab_wait 30 ctr "$1" version || cluster_wrong "containerd-$1"
	node_images "$1"
}

# node_kubelet NODE [LINE...]: configures and starts the kubelet.
node_kubelet() {
	certificate "$1" "/O=system:nodes/CN=system:node:$1"
	kubeconfig "$CLUSTER/$1.conf" "$API" "certificate $1"
	echo "nameserver 10.0.0.2" >"$LAB_DIR/$1/resolv.conf"
	cat >"$LAB_DIR/$1/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		cgroupDriver: cgroupfs
		cgroupRoot: /kubepods
		cgroupsPerQOS: false
		enforceNodeAllocatable: []
		protectKernelDefaults: true
		failSwapOn: false
		oomScoreAdj: 0
		resolvConf: $LAB_DIR/$1/resolv.conf
		evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
		imageGCHighThresholdPercent: 100
		serializeImagePulls: false
	YAML
	printf '%s\n' "${@:2}" >>"$LAB_DIR/$1/kubelet.yaml"
	lab_start "$1" "kubelet-$1.log" kubelet --config "$LAB_DIR/$1/kubelet.yaml" --kubeconfig "$CLUSTER/$1.conf" --hostname-override "$1" \
		--node-ip "10.0.0.$(lab_number "$1"),fd00:10::$(lab_number "$1")" --node-labels "topology.kubernetes.io/zone=zone-${1#node-}" \
		--cert-dir "$LAB_DIR/$1/pki"
}

node_joins() {
	local range
	range=$(node_range "$1")
	node_machine "$1"
	node_containerd "$1"
	node_kubelet "$@"
	lab_wait 60 kubectl get node "$1" || cluster_wrong "kubelet-$1"
	kubectl patch node "$1" --patch "{\"spec\": {\"podCIDR\": \"10.244.$range.0/24\", \"podCIDRs\": [\"10.244.$range.0/24\", \"fd00:10:244:$range::/64\"]}}" >/dev/null
	kubectl wait --for=condition=Ready "node/$1" --timeout=60s || cluster_wrong "kubelet-$1"
}

# ---- The cluster. ----

# used_controllers: all of this release but UNUSED_CONTROLLERS, as --controllers wants them.
used_controllers() {
	local each known
	known=$("$PARTNERS/kube-controller-manager" --help 2>&1)
	printf '*'
	for each in "${UNUSED_CONTROLLERS[@]}"; do [[ $known != *"$each"* ]] || printf ',-%s' "$each"; done
}

nodes_up() {
	PARTNERS=${PARTNERS:-$("$SLUICE_ROOT/scripts/lib/partners" --nodes)}
	CONTAINERD=${CONTAINERD:-$("$SLUICE_ROOT/scripts/lib/containerd")}
	# kube-proxy's image has the same iptables and nft: an older nft (1.0.6) crashes when it lists what the newest has written.
	NODE_PATH=$(newest_netfilter_tools):$PARTNERS:$CONTAINERD/usr/bin:$CONTAINERD/usr/sbin:$PATH
	LAB=$1-$$
	LAB_CGROUP=$(cgroup_root)/$LAB
	LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/$LAB.XXXXXX")
	CLUSTER=$LAB_DIR/cluster
	mkdir -p "$CLUSTER" "$LAB_DIR/images" "$LAB_CGROUP"
	nodes_network
	cluster_certificates
	kubeconfig "$CLUSTER/controllers.conf" https://127.0.0.1:6443 "certificate controllers"
	kubeconfig "$CLUSTER/admin.conf" https://127.0.0.1:6443 "certificate admin"
	cluster_etcd
	cluster_api
	CONTROLLERS=$(used_controllers)
	cluster_controllers
	lab_wait 30 kubectl get serviceaccount default || cluster_wrong kube-controller-manager
	partner kube-scheduler --kubeconfig "$CLUSTER/controllers.conf" --leader-elect=false --secure-port 0
	pause_image
	sluice_image
}

nodes_down() {
	local code=$?
	((code == 0)) || [[ -z $CLUSTER ]] || nodes_explain || true
	# Containers and their shims outlive containerd.
	[[ -z $LAB ]] || echo 1 >"$LAB_CGROUP/cgroup.kill" || true
	lab_down
	CLUSTER=''
}

# ---- DaemonSets, pods and services. ----

rolled_out() { kubectl -n kube-system rollout status "daemonset/$1" --timeout=300s || die "the DaemonSet $1 does not become ready"; }
pods_of() { kubectl -n kube-system get pods -l "app.kubernetes.io/name=$1" -o jsonpath='{.items[*].metadata.name}'; }

# web_pod NODE: prints a pod that runs programs of this machine, mounted at the same paths.
web_pod() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Pod
		metadata: {name: web-$1, labels: {app: web}}
		spec:
		  nodeSelector: {kubernetes.io/hostname: $1}
		  terminationGracePeriodSeconds: 1
		  dnsPolicy: Default
		  containers:
		    - name: web
		      image: $PAUSE
		      imagePullPolicy: Never
		      command: [python3, $SLUICE_ROOT/scripts/lib/backend.py, web-$1, "8080", "5353"]
		      readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
		      volumeMounts:
		        - {name: usr, mountPath: /usr, readOnly: true}
		        - {name: sluice, mountPath: $SLUICE_ROOT, readOnly: true}
		        - {name: lab, mountPath: $LAB_DIR, readOnly: true}
		  volumes:
		    - {name: usr, hostPath: {path: /usr}}
		    - {name: sluice, hostPath: {path: $SLUICE_ROOT}}
		    - {name: lab, hostPath: {path: $LAB_DIR}}
	YAML
}

# web_of NAME NUMBER PROTOCOL PORT TARGET NODE_PORT [POLICY]: prints a service of these pods.
web_of() {
	cat <<-YAML
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec:
		  type: LoadBalancer
		  externalTrafficPolicy: ${7:-Cluster}
		  selector: {app: web}
		  clusterIP: 10.96.0.$2
		  clusterIPs: [10.96.0.$2, "fd00:10:96::$2"]
		  ipFamilyPolicy: RequireDualStack
		  ports: [{protocol: $3, port: $4, targetPort: $5, nodePort: $6}]
	YAML
}

# assign_addresses NAME NUMBER: assigns load-balancer addresses to a service, as a load balancer's controller does.
assign_addresses() {
	kubectl patch service "$1" --subresource=status --type=merge \
		--patch "{\"status\": {\"loadBalancer\": {\"ingress\": [{\"ip\": \"203.0.113.$2\"}, {\"ip\": \"2001:db8:113::$2\"}]}}}" >/dev/null
}

web() {
	local node
	{
		for node in "${NODES[@]}"; do web_pod "$node"; done
		web_of web 80 TCP 80 8080 30080
		web_of dns 53 UDP 53 5353 30053
		web_of here 82 TCP 80 8080 30082 Local
	} | kubectl apply -f - >/dev/null
	assign_addresses web 80
	assign_addresses dns 53
	assign_addresses here 82
	kubectl wait --for=condition=Ready pod -l app=web --timeout=60s >/dev/null || die "the pods do not become ready"
}

# web_backends WHO PROTOCOL ADDRESS PORT: prints the backends that reply to twenty requests, none of which may fail.
web_backends() { lab_ask "$@" && lab_ask "$@" --count 20 --json | jq -r '.answers | keys | join(" ")'; }
web_reached() { [[ $(web_backends "$@") == *"web-node-a web-node-b" ]]; }
# web_local NODE WHO PROTOCOL ADDRESS PORT: whether only that node's pod replies.
web_local() { [[ $(web_backends "${@:2}" | tail -n 1) == "web-$1" ]]; }

# With the policy Local, pods reach all endpoints of a Service, and external clients those of the node that they address.
web_answers() {
	local each node
	for each in "tcp 10.96.0.80 80" "tcp fd00:10:96::80 80" "udp 10.96.0.53 53" "udp fd00:10:96::53 53" "tcp 203.0.113.82 80"; do
		for node in "${NODES[@]}"; do
			# shellcheck disable=SC2086  # protocol, address and port
			lab_wait 5 web_reached "pod/web-$node" $each || die "$1: pod web-$node: $each: $(web_backends "pod/web-$node" $each)"
		done
	done
	for each in "tcp 10.0.0.11 30080" "tcp fd00:10::12 30080" "udp 10.0.0.12 30053" "udp fd00:10::11 30053" "tcp 203.0.113.80 80" \
		"udp 2001:db8:113::53 53"; do
		# shellcheck disable=SC2086
		lab_wait 5 web_reached client $each || die "$1: client: $each: $(web_backends client $each)"
	done
	for each in "node-a client tcp 10.0.0.11 30082" "node-b client tcp fd00:10::12 30082" "node-a client tcp 203.0.113.82 80"; do
		# shellcheck disable=SC2086
		lab_wait 5 web_local $each || die "$1: not only by the node's own pod: $each: $(web_backends ${each#* })"
	done
	printf '%s: pods reach ClusterIPs, the client node ports, and both load-balancer addresses\n' "$1"
}

# web_clients WHEN: starts long and new connections to the services.
web_clients() {
	local each first=${#SWITCH_CLIENTS[@]}
	for each in "pod/web-node-a keep tcp 10.96.0.80 80" "pod/web-node-b keep tcp fd00:10:96::80 80" "pod/web-node-a keep udp fd00:10:96::53 53" \
		"pod/web-node-a keep tcp 203.0.113.82 80" "pod/web-node-a keep tcp 10.0.0.11 30082" "pod/web-node-b keep tcp fd00:10::11 30080" \
		"client keep tcp 10.0.0.11 30080" "client keep tcp fd00:10::12 30080" "client keep udp 10.0.0.12 30053" \
		"client keep tcp 10.0.0.11 30082" "client keep tcp fd00:10::12 30082" \
		"client keep tcp 203.0.113.80 80" "client keep tcp 2001:db8:113::82 80" "client keep udp 203.0.113.53 53"; do
		# shellcheck disable=SC2086
		switch_client $each
	done
	switch_open "$1" "$first"
}

web_fresh() {
	local each
	for each in "pod/web-node-a fresh tcp 10.96.0.80 80" "pod/web-node-b fresh tcp fd00:10:96::80 80" "pod/web-node-a fresh udp fd00:10:96::53 53" \
		"pod/web-node-b fresh tcp 2001:db8:113::82 80" \
		"client fresh tcp 10.0.0.11 30080" "client fresh tcp fd00:10::12 30080" "client fresh udp 10.0.0.12 30053" \
		"client fresh tcp fd00:10::12 30082" "client fresh tcp 203.0.113.80 80" "client fresh tcp 203.0.113.82 80"; do
		# shellcheck disable=SC2086
		switch_client $each
	done
}

# Creates the objects of cmd/kubeadm/app/phases/addons/proxy/manifests.go, with the configuration that the release's kubeadm
# writes; except for the size of conntrack's table, which is machine-wide, as with kind.
kubeadm_config() {
	kubectl -n kube-system create serviceaccount kube-proxy >/dev/null
	kubectl create clusterrolebinding kubeadm:node-proxier --clusterrole=system:node-proxier --serviceaccount=kube-system:kube-proxy >/dev/null
	cat >"$LAB_DIR/kubeconfig.conf" <<-YAML
		apiVersion: v1
		kind: Config
		clusters: [{name: default, cluster: {certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt, server: "$API"}}]
		contexts: [{name: default, context: {cluster: default, namespace: default, user: default}}]
		current-context: default
		users: [{name: default, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]
	YAML
	kube_proxy_mode "$1"
}

# release: prints the Kubernetes release of PARTNERS, for example 1.36.
release() { "$PARTNERS/kube-proxy" --version | sed 's/.* v\(1\.[0-9]*\)\..*/\1/'; }

kube_proxy_mode() {
	sed -E "s/^  (maxPerCore|min): null/  \1: 0/; s/^mode: .*/mode: $1/" "$SLUICE_ROOT/tests/corpus/kube_proxy/kubeadm-$(release).yaml" >"$LAB_DIR/config.conf"
	kubectl -n kube-system create configmap kube-proxy --from-file="$LAB_DIR/kubeconfig.conf" --from-file="$LAB_DIR/config.conf" \
		--dry-run=client -o yaml | kubectl apply -f - >/dev/null
}

# left NODE: prints the directories of pins (a bpf file system has files of its own), and our programs that are attached to
# the node's devices and cgroup.
left() {
	lab_in "$1" find /sys/fs/bpf -mindepth 1 -type d
	lab_in "$1" bpftool net show | grep -o 'lb_[a-z0-9_]*' | sort -u
	lab_in "$1" bpftool cgroup show /sys/fs/cgroup | grep -o 'lb_[a-z0-9_]*' | sort -u
}

# nothing_left: checks that nothing is left on any node.
nothing_left() {
	local node
	for node in "${NODES[@]}"; do
		[[ -z $(left "$node") ]] || die "SEM-75: left on $node: $(left "$node")"
	done
}

# nodes_explain: prints diagnostics of a failed scenario.
nodes_explain() {
	kubectl get pods -A -o wide
	kubectl get events -A --sort-by=.lastTimestamp | tail -n 15
	kubectl -n kube-system logs -l app.kubernetes.io/name=sluice --tail=10 --prefix
}
