# The measurements that need a cluster: objects of a given size, kube-proxy and Sluice one after the other on the same node,
# load from a client. Sourced by bench/lib/parts.
# shellcheck shell=bash

# One server answers for every endpoint: the addresses are routed to the loopback of a worker.
ENDPOINT_RANGE=10.128.0.0/9
NODE_ADDRESS=10.0.0.10 BENCH_PORT=32301
PEER='' PEER_LOG=''

measure() { lab_in control env E2E_KUBE="$CLUSTER" PYTHONPATH="$E2E" python3 "$SLUICE_ROOT/bench/lib/measure.py" "$@"; }
on_node() { lab_in node python3 "$SLUICE_ROOT/bench/lib/measure.py" "$@"; }

bench_cluster() {
	cluster_up bench
	ip -n "$LAB-worker-a" route add local "$ENDPOINT_RANGE" dev lo
	ip -n "$LAB-node" route add "$ENDPOINT_RANGE" via 10.0.0.21
	ip -n "$LAB-client" route add "$ENDPOINT_RANGE" via "$NODE_ADDRESS"
	# Answers of a direct request take the way that those of a service do.
	ip -n "$LAB-worker-a" route replace 10.0.0.100/32 via "$NODE_ADDRESS"
}

server_starts() {
	mkdir -p "$LAB_DIR/www"
	printf 'ok\n' >"$LAB_DIR/www/index.html"
	cat >"$LAB_DIR/nginx.conf" <<-CONF
		user root;
		worker_processes 1;
		daemon off;
		pid $LAB_DIR/nginx.pid;
		error_log $LAB_DIR/nginx.err;
		events { worker_connections 8192; }
		http {
			log_format hit '\$server_addr';
			access_log $LAB_DIR/hits hit buffer=64k flush=1s;
			server { listen 80 backlog=8192; root $LAB_DIR/www; }
		}
	CONF
	lab_start worker-a nginx.log nginx -c "$LAB_DIR/nginx.conf"
	lab_wait 10 lab_in worker-a curl -fsS -m 1 http://127.0.0.1/ || die "nginx does not start: $(cat "$LAB_DIR/nginx.log")"
}

# peer_starts NAME: kube-proxy in a mode (iptables, nftables), or sluice (with tc, or xdp), on node; waits until all is programmed.
peer_starts() {
	local seconds=180
	PEER=$1 PEER_LOG=$LAB_DIR/peer-$1.log
	case $1 in
	iptables | nftables)
		kubeconfig "$CLUSTER/kube-proxy.kubeconfig" "$API" "certificate kube-proxy"
		cat >"$CLUSTER/kube-proxy.conf" <<-YAML
			apiVersion: kubeproxy.config.k8s.io/v1alpha1
			kind: KubeProxyConfiguration
			clientConnection: {kubeconfig: $CLUSTER/kube-proxy.kubeconfig, contentType: application/vnd.kubernetes.protobuf}
			mode: $1
			hostnameOverride: node
			detectLocalMode: NodeCIDR
			conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
			healthzBindAddress: 127.0.0.1:10256
			metricsBindAddress: 127.0.0.1:10249
		YAML
		lab_start node "peer-$1.log" "$PARTNERS/kube-proxy" --config "$CLUSTER/kube-proxy.conf"
		;;
	sluice | sluice-xdp)
		lab_start node "peer-$1.log" "$SLUICE" agent --kubeconfig "$CLUSTER/agent.conf" --node node --devices eth0 \
			--xdp "$([[ $1 == sluice ]] && echo off || echo native)" --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" \
			--health 127.0.0.1:10256 --metrics 127.0.0.1:10249
		;;
	esac
	PEER_PID=$LAB_STARTED
	on_node programmed "$PEER_PID" "$seconds" || {
		tail -n 20 "$PEER_LOG"
		return 1
	}
}

# peer_ends: and what it left in the kernel.
peer_ends() {
	lab_stop "$PEER_PID" KILL || true
	case $PEER in
	iptables | nftables)
		lab_in node nft flush ruleset
		lab_in node iptables-save | grep -q KUBE && die "kube-proxy's rules are still there"
		;;
	*) rm -rf "$LAB_PINS" ;;
	esac
	return 0
}

# ---- One NodePort service with 100,000 endpoints, as published at KubeCon EU 2020. ----

# load WHO URL REQUESTS LABEL: one run of hey, every request on its own connection.
load() {
	: >"$LAB_DIR/hits"
	sleep 1
	lab_in "$1" hey -n "$3" -c 8 -t 20 -disable-keepalive -o csv "$2" >"$LAB_DIR/hey.csv" 2>"$LAB_DIR/hey.err" ||
		die "hey fails: $(cat "$LAB_DIR/hey.err")"
	sleep 2 # until the server has written its log
	python3 "$SLUICE_ROOT/bench/lib/measure.py" load "$4" "$3" "$ENDPOINTS" "$LAB_DIR/hey.csv" "$LAB_DIR/hits" | tee -a "$RECORDS" |
		python3 "$SLUICE_ROOT/bench/lib/measure.py" say
}

part_workload() {
	# hey gives each of its clients the same number, rounded down.
	local round requests=$((REQUESTS / 80 * 80))
	bench_cluster
	measure fill 1 "$ENDPOINTS" "$BENCH_PORT"
	server_starts
	lab_offload off
	for ((round = 1; round <= ROUNDS; round++)); do
		load client http://10.128.0.1/ "$requests" "client direct"
		load node http://10.128.0.1/ "$requests" "node direct"
		peer_starts nftables || die "kube-proxy (nftables) does not get ready"
		load client "http://$NODE_ADDRESS:$BENCH_PORT/" "$requests" "client kube-proxy nftables"
		peer_ends
		peer_starts sluice || die "sluice does not get ready"
		load client "http://$NODE_ADDRESS:$BENCH_PORT/" "$requests" "client sluice tc"
		load node "http://$NODE_ADDRESS:$BENCH_PORT/" "$requests" "node sluice socket"
		peer_ends
		peer_starts sluice-xdp || die "sluice (XDP) does not get ready"
		load client "http://$NODE_ADDRESS:$BENCH_PORT/" "$requests" "client sluice xdp"
		peer_ends
	done
	# Ten times slower, and no peer for anything but the published figures.
	if peer_starts iptables; then
		load client "http://$NODE_ADDRESS:$BENCH_PORT/" $((requests / 10)) "client kube-proxy iptables"
		peer_ends
	else
		skipped "workload iptables" "kube-proxy (iptables) does not get ready"
		peer_ends
	fi
	cluster_down
}

# ---- What a change costs. ----

part_updates() {
	local size round peer
	for size in $SIZES; do
		bench_cluster
		measure fill "${size%x*}" "${size#*x}" 0
		for ((round = 1; round <= ROUNDS; round++)); do
			for peer in nftables sluice; do
				if ! peer_starts "$peer"; then
					skipped "updates $size" "$peer does not get ready"
					peer_ends
					continue
				fi
				on_node start "$peer" "$size" "$PEER_PID" | tee -a "$RECORDS" | python3 "$SLUICE_ROOT/bench/lib/measure.py" say
				measure changes "$peer" "$size" "$PEER_PID" "/run/netns/$LAB-node" 5 | tee -a "$RECORDS" |
					python3 "$SLUICE_ROOT/bench/lib/measure.py" say
				peer_ends
			done
		done
		cluster_down
	done
}
