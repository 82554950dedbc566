# SPDX-License-Identifier: Apache-2.0
# Shared by the measurements with a cluster: objects of a given size, kube-proxy and Sluice one after the other on the same
# node, servers and clients. Sourced by bench/lib/parts.
# shellcheck shell=bash

# One server answers for all endpoints: their addresses are routed to a worker's loopback device.
ENDPOINT_RANGE=10.128.0.0/9
NODE_ADDRESS=10.0.0.10 BENCH_PORT=32301
PEER='' PEER_PID='' PEER_LOG='' PEER_CGROUP='' PEER_CALLS=''
PEERS=0 IPTABLES_BIN=''
# shellcheck source=bench/lib/iptables.sh
source "$SLUICE_ROOT/bench/lib/iptables.sh"
export BENCH_SYSCALLS=$BUILD_ROOT/bench/bench_syscalls

measure() { lab_in control env E2E_KUBE="$CLUSTER" PYTHONPATH="$E2E" python3 "$SLUICE_ROOT/bench/lib/measure.py" "$@"; }
on_node() { lab_in node env PYTHONPATH="$E2E" python3 "$SLUICE_ROOT/bench/lib/measure.py" "$@"; }

# endpoint_routes: adds routes to the server behind all endpoints, and back.
endpoint_routes() {
	ip -n "$LAB-worker-a" route add local "$ENDPOINT_RANGE" dev lo
	ip -n "$LAB-node" route add "$ENDPOINT_RANGE" via 10.0.0.21
	ip -n "$LAB-client" route add "$ENDPOINT_RANGE" via "$NODE_ADDRESS"
	# Replies to a direct request take the same route as those of a service.
	ip -n "$LAB-worker-a" route replace 10.0.0.100/32 via "$NODE_ADDRESS"
}

bench_cluster() {
	cluster_up bench
	endpoint_routes
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
			log_format hit '\$server_addr \$remote_addr:\$remote_port';
			access_log $LAB_DIR/hits hit buffer=64k flush=1s;
			server { listen 80 backlog=8192; root $LAB_DIR/www; }
		}
	CONF
	lab_start worker-a nginx.log nginx -c "$LAB_DIR/nginx.conf"
	lab_wait 10 lab_in worker-a curl -fsS -m 1 http://127.0.0.1/ || die "nginx does not start: $(cat "$LAB_DIR/nginx.log")"
}

# peer_run NAME COMMAND...: runs COMMAND on node in its own cgroup; counts its system calls if PEER_CALLS is set.
peer_run() {
	PEER=$1 PEER_LOG=$LAB_DIR/peer-$1.log PEER_CGROUP=$LAB_CGROUP/node/peer-$((++PEERS))
	mkdir "$PEER_CGROUP"
	: >"$PEER_LOG"
	if [[ -n $PEER_CALLS ]]; then
		rm -rf "$PEER_CALLS"
		"$BENCH_SYSCALLS" begin "$PEER_CGROUP" "$PEER_CALLS" || rm -rf "$PEER_CALLS"
	fi
	# shellcheck disable=SC2016  # expanded inside
	lab_start node "peer-$1.log" bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' peer "$PEER_CGROUP" "${@:2}"
	PEER_PID=$LAB_STARTED
	export PEER PEER_PID PEER_CGROUP PEER_CALLS
}

# peer_starts NAME [OPTION...]: starts kube-proxy in a mode (iptables, nftables; nftables-1.36 is the older release's), or
# Sluice (with tc, with tc and the stack, or with XDP) with more options, on node; waits until everything is programmed.
peer_starts() {
	local xdp=off forwarding=(redirect) programs=$PARTNERS
	case $1 in
	iptables | nftables | nftables-1.36)
		[[ $1 != *-1.36 ]] || programs=$OLDER_PARTNERS
		kubeconfig "$CLUSTER/kube-proxy.kubeconfig" "$API" "certificate kube-proxy"
		cat >"$CLUSTER/kube-proxy.conf" <<-YAML
			apiVersion: kubeproxy.config.k8s.io/v1alpha1
			kind: KubeProxyConfiguration
			clientConnection: {kubeconfig: $CLUSTER/kube-proxy.kubeconfig, contentType: application/vnd.kubernetes.protobuf}
			mode: ${1%-*}
			hostnameOverride: node
			detectLocalMode: NodeCIDR
			conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
			healthzBindAddress: 127.0.0.1:10256
			metricsBindAddress: 127.0.0.1:10249
		YAML
		peer_run "$1" env PATH="${IPTABLES_BIN:+$IPTABLES_BIN:}$PATH" "$programs/kube-proxy" --config "$CLUSTER/kube-proxy.conf"
		;;
	sluice | sluice-stack | sluice-xdp)
		[[ $1 != sluice-xdp ]] || xdp=native
		# Such a flow has twice as many entries: with the default, the flows of both protocols would not fit.
		[[ $1 != sluice-stack ]] || forwarding=(stack --max-flows 1048576)
		peer_run "$1" "$SLUICE" agent --kubeconfig "$CLUSTER/agent.conf" --node node --devices "$LAB_DEVICES" \
			--xdp "$xdp" --forwarding "${forwarding[@]}" --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --health 127.0.0.1:10256 --metrics 127.0.0.1:10249 "${@:2}"
		;;
	esac
	on_node programmed "$PEER_PATIENCE" 2>"$LAB_DIR/peer-why"
}

# peer_rules: prints the number of lines of the peer's rules; Sluice has none.
peer_rules() {
	case $PEER in
	iptables) lab_in node "$IPTABLES_BIN/iptables-save" | wc -l ;;
	nftables*) lab_in node nft list ruleset | wc -l ;;
	*) echo 0 ;;
	esac
}

# peer_killed: kills the peer and its children, because an iptables-restore would continue.
peer_killed() {
	echo 1 >"$PEER_CGROUP/cgroup.kill"
	lab_stop "$PEER_PID" KILL || true
	lab_wait 60 grep -qx 'populated 0' "$PEER_CGROUP/cgroup.events" || die "$PEER does not end"
}

# peer_ends: kills the peer, and removes its state from the kernel.
peer_ends() {
	peer_killed
	case $PEER in
	nftables*) lab_in node nft flush ruleset ;;
	iptables)
		if [[ $IPTABLES == legacy ]]; then iptables_empty; else lab_in node nft flush ruleset; fi
		! lab_in node "$IPTABLES_BIN/iptables-save" | grep KUBE >/dev/null || die "kube-proxy's rules are still there"
		;;
	*) rm -rf "$LAB_PINS" ;;
	esac
	[[ -z $PEER_CALLS ]] || rm -rf "$PEER_CALLS"
	# The previous agent's conntrack entries would interfere with the next one.
	lab_in node conntrack -F >/dev/null 2>&1 || true
	PEER=''
	return 0
}

# keep: appends the records on standard input, one JSON object per line, to the results, and prints them as text.
keep() { tee -a "$RECORDS" | python3 "$SLUICE_ROOT/bench/lib/measure.py" say; }

# last_line FILE: prints the last line of a failed command's output, without bash's messages about killed processes.
last_line() {
	sed 's/\x1b\[[0-9;]*m//g' "$1" | awk 'NF && !/ Killed / { last = $0 } END { print last == "" ? "it printed no reason" : substr(last, 1, 300) }'
}

# not_ready PART: records that the started peer did not become ready, and stops it.
not_ready() {
	skipped "$1" "$PEER is not ready: $(last_line "$LAB_DIR/peer-why"); $(peer_error)$(peer_children)"
	peer_ends
}

# peer_error: prints the last error in the peer's log. It ignores messages about counters that this kernel lacks, which each
# read of the metrics causes, and about the configured addresses of node ports.
peer_error() {
	awk '!/nfacct|nodePortAddresses/ && (/^[EF][0-9]/ || tolower($0) ~ /error|fail/) { last = $0 }
		END { print last == "" ? "no error in its log" : substr(last, 1, 250) }' "$PEER_LOG"
}

# peer_children: prints the peer's children that still run, and for how long.
peer_children() {
	local pid name seconds
	while read -r pid; do
		((pid == PEER_PID)) || ! read -r name seconds < <(ps -o comm=,etimes= -p "$pid") || printf '; its %s has run for %s s' "$name" "$seconds"
	done <"$PEER_CGROUP/cgroup.procs"
}
