# The parts of bench/run about the control plane: the published workload, what a change costs an agent, and what an agent costs
# the API server. Sourced by bench/lib/parts.
# shellcheck shell=bash

# ---- One NodePort service with 100,000 endpoints, as published at KubeCon EU 2020. ----

# load WHO URL REQUESTS LABEL: one run of hey, every request on its own connection.
load() {
	: >"$LAB_DIR/hits"
	sleep 1
	lab_in "$1" hey -n "$3" -c 8 -t 20 -disable-keepalive -o csv "$2" >"$LAB_DIR/hey.csv" 2>"$LAB_DIR/hey.err" ||
		die "hey fails: $(cat "$LAB_DIR/hey.err")"
	sleep 2 # until the server has written its log
	python3 "$SLUICE_ROOT/bench/lib/measure.py" load "$4" "$3" "$ENDPOINTS" "$LAB_DIR/hey.csv" "$LAB_DIR/hits" | keep
}

part_workload() {
	# hey gives each of its clients the same number, rounded down.
	local round requests=$((REQUESTS / 80 * 80))
	bench_cluster
	measure fill "1x$ENDPOINTS" "$BENCH_PORT" Cluster
	fast_links
	quiet_server
	server_starts
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
		not_ready "workload iptables"
	fi
	cluster_down
}

# ---- What a start and a change cost. ----

# client_watches: from now on $SEEN says who answers the client at the node port, and since when.
client_watches() {
	SEEN=$LAB_DIR/seen
	serving answer 80
	lab_start client seen "$BENCH/bench_connect" watch "$NODE_ADDRESS" "$BENCH_PORT"
}

# updates_of PEER SIZE ROLLING: a start, some changes, and where ROLLING is not 0 a rolling update of so many endpoints.
updates_of() {
	local -a room=()
	# The defaults have room for 262,144 endpoints, and each change needs a second extent for a moment.
	((${2#*x} <= 200000)) || room=(--max-backends 1400000 --max-slots 4194304)
	[[ $1 == sluice ]] || room=()
	if ! peer_starts "$1" "${room[@]}"; then
		not_ready "updates $2 $1"
		return 0
	fi
	on_node start "$2" "$SEEN" | keep
	measure changes "$2" "/run/netns/$LAB-node" "$SEEN" "$CHANGES" "$SLICES" "$3" "$RATE" | keep
	peer_ends
}

# updates_at SIZE ROUNDS ROLLING PEER...: the peers in turn; the rolling update in the first round alone.
updates_at() {
	local round peer rolling=$3
	bench_cluster
	measure fill "$1" "$BENCH_PORT" Local
	client_watches
	for ((round = 1; round <= $2; round++)); do
		for peer in "${@:4}"; do updates_of "$peer" "$1" "$rolling"; done
		rolling=0
	done
	cluster_down
}

part_updates() {
	local size first=yes
	PEER_CALLS=/sys/fs/bpf/bench-calls
	for size in $SIZES; do
		case $size in
		*x1000000) ! enough 10 "updates $size" || updates_at "$size" 1 "$ROLLING_ELSEWHERE" sluice ;;
		*)
			if [[ $first == yes ]]; then
				updates_at "$size" "$ROUNDS" "$ROLLING" nftables sluice
			else
				updates_at "$size" 1 "$ROLLING_ELSEWHERE" nftables sluice
			fi
			first=no
			;;
		esac
	done
	# Each of its synchronisations takes seconds, so a rolling update would never end.
	[[ -z ${SIZES_IPTABLES:-} ]] || for size in $SIZES_IPTABLES; do updates_at "$size" 1 0 iptables; done
	PEER_CALLS=''
}

# ---- What one agent costs the API server. ----

part_cost() {
	local peer
	bench_cluster
	measure fill "1x$ENDPOINTS" "$BENCH_PORT" Cluster
	measure count "$NODE_ADDRESS"
	for peer in nobody nftables sluice; do
		export PEER=$peer
		measure server "$CLUSTER_API" >"$LAB_DIR/before"
		if [[ $peer == nobody ]]; then
			sleep 5
		elif ! peer_starts "$peer"; then
			not_ready "cost $peer"
			continue
		fi
		measure served "$CLUSTER_API" "1x$ENDPOINTS" "$LAB_DIR/before" | keep
		measure cost "$CLUSTER_API" "1x$ENDPOINTS" "$COST_CHANGES" 30 | keep
		[[ $peer == nobody ]] || peer_ends
	done
	cluster_down
}
