# SPDX-License-Identifier: Apache-2.0
# The parts of bench/run that need a control plane: the published workload, the cost of a change for an agent, and the cost of
# an agent for the API server. Sourced by bench/lib/parts.
# shellcheck shell=bash

# OUT is a directory with a file for each peer that did not become ready and is not tried again.
ROUND=1 OUT=''
export ROUND BENCH_CONNECT=$BUILD_ROOT/bench/bench_connect

# isolated PART COMMAND...: runs COMMAND in a subshell, so that if it exits, only PART ends and counts as failed. Do not call it
# where bash ignores errors (after `if`, before `||`): COMMAND would ignore them too.
isolated() {
	local code=0 why
	why=$(mktemp)
	(
		trap 'cluster_down 2>/dev/null' EXIT
		"${@:2}"
	) 2>"$why" &
	wait $! || code=$?
	cat "$why" >&2
	((code == 0)) || broken "$1" "ended with an error: $(last_line "$why")"
	rm -f "$why"
}

# keep_records PART COMMAND...: keeps the records that COMMAND writes; if it fails, skips PART and reports COMMAND's last line.
keep_records() {
	"${@:2}" 2>"$LAB_DIR/why" | keep && return 0
	broken "$1" "$(last_line "$LAB_DIR/why")"
	return 1
}

# give_up_peer PEER PART: records that PEER did not become ready; it is not tried again.
give_up_peer() {
	not_ready "$2"
	touch "$OUT/$1"
}

# ---- One NodePort service with many endpoints, as published at KubeCon EU 2020. ----

# load WHO URL LABEL: runs hey once, with a new connection for every request.
load() {
	# hey gives each of its clients the same number of requests, rounded down.
	local requests=$((REQUESTS / 80 * 80))
	sleep 1.5 # until the server has written the hits of the previous run
	: >"$LAB_DIR/hits"
	if ! lab_in "$1" hey -n "$requests" -c 8 -t 20 -disable-keepalive -o csv "$2" >"$LAB_DIR/hey.csv" 2>"$LAB_DIR/hey.err"; then
		broken "workload $WORKLOAD $3" "hey fails: $(last_line "$LAB_DIR/hey.err")"
		return 0
	fi
	lab_wait 5 hits_written "$requests" || true # missing hits are counted
	keep_records "workload $WORKLOAD $3" python3 "$SLUICE_ROOT/bench/lib/measure.py" hits "$3" "$requests" "$WORKLOAD" \
		"$LAB_DIR/hey.csv" "$LAB_DIR/hits" || true
}

hits_written() { (($(wc -l <"$LAB_DIR/hits") >= $1)); }

# workload_of PEER: measures the peer on each of its paths.
workload_of() {
	local url="http://$NODE_ADDRESS:$BENCH_PORT/"
	[[ ! -e $OUT/$1 ]] || return 0
	if ! peer_starts "$1"; then
		give_up_peer "$1" "workload $WORKLOAD $1"
		return 0
	fi
	keep_records "rules $WORKLOAD $1" on_node rules "$WORKLOAD" "$(peer_rules)" || true
	case $1 in
	sluice)
		load client "$url" "client sluice tc"
		load node "$url" "node sluice socket"
		;;
	sluice-xdp) load client "$url" "client sluice xdp" ;;
	*) load client "$url" "client kube-proxy $1" ;;
	esac
	peer_ends
}

# workload_up ENDPOINTS: sets up the service and its server.
workload_up() {
	WORKLOAD=$1
	bench_cluster
	measure fill "1x$1" "$BENCH_PORT" Cluster
	fast_links
	no_time_wait
	server_starts
	iptables_tools
}

workload_at() {
	local peer
	workload_up "$1"
	for ((ROUND = 1; ROUND <= ROUNDS; ROUND++)); do
		load client http://10.128.0.1/ "client direct"
		load node http://10.128.0.1/ "node direct"
		for peer in nftables sluice sluice-xdp iptables; do workload_of "$peer"; done
	done
}

# workload_small: measures kube-proxy's iptables mode with few endpoints, so that there is a figure for it at all.
workload_small() {
	workload_up "$IPTABLES_ENDPOINTS"
	for ((ROUND = 1; ROUND <= ROUNDS; ROUND++)); do workload_of iptables; done
}

part_workload() {
	local endpoints
	OUT=$(mktemp -d)
	for endpoints in $WORKLOADS; do isolated "workload $endpoints" workload_at "$endpoints"; done
	if [[ -e $OUT/iptables ]]; then
		rm "$OUT/iptables"
		isolated "workload $IPTABLES_ENDPOINTS iptables" workload_small
	fi
}

# ---- The cost of a start and of a change. ----

# client_watches: starts recording in $SEEN which endpoint answers the client at the node port, and since when.
client_watches() {
	: >"$SEEN"
	lab_start client seen "$BENCH_CONNECT" watch "$NODE_ADDRESS" "$BENCH_PORT"
	WATCH=$LAB_STARTED
}

# updates_of PEER SIZE ROLLING: measures a start, some changes, and, if ROLLING is not 0, a rolling update of that many
# endpoints.
updates_of() {
	local part="updates $2 $1" rate=$STEADY
	local -a sizes=()
	# The defaults have room for 262,144 endpoints, and each change temporarily needs a second extent.
	((${2#*x} <= 200000)) || sizes=(--max-backends 1400000 --max-slots 4194304)
	[[ $1 == sluice ]] || sizes=()
	[[ $1 != iptables ]] || rate=$STEADY_IPTABLES
	[[ ! -e $OUT/$1 ]] || return 0
	client_watches
	if peer_starts "$1" "${sizes[@]}"; then
		keep_records "$part start" on_node start "$2" "$SEEN" || true
		STEADY=$rate keep_records "$part" measure changes "$2" "/run/netns/$LAB-node" "$SEEN" "$LAB_DIR/history" "$CHANGES" "$SLICES" "$3" "$RATE" || true
		peer_ends
	else
		give_up_peer "$1" "$part"
	fi
	lab_stop "$WATCH" KILL || true
}

# updates_at SIZE ROLLING PEER...: measures the peers by turns; the rolling update only in the first round.
updates_at() {
	local peer rolling=$2
	OUT=$(mktemp -d)
	bench_cluster
	SEEN=$LAB_DIR/seen
	measure fill "$1" "$BENCH_PORT" Local
	serving answer 80
	[[ " $* " != *" iptables "* ]] || iptables_tools
	for ((ROUND = 1; ROUND <= ROUNDS; ROUND++)); do
		for peer in "${@:3}"; do
			((ROUND <= $(rounds_of "$1" "$peer"))) || continue
			updates_of "$peer" "$1" "$rolling"
		done
		rolling=0
	done
}

# rounds_of SIZE PEER: prints the number of rounds, which is smaller for slow measurements.
rounds_of() {
	if ((${1%x*} <= 10000 && ${1#*x} <= 200000)) && [[ $2 != iptables ]]; then echo "$ROUNDS"; else echo "$SLOW_ROUNDS"; fi
}

# updates_peers SIZE: sets UPDATES_PEERS to the peers that are measured at that size; records the others with the reason.
updates_peers() {
	UPDATES_PEERS=(sluice)
	if ((${1#*x} > 200000)); then
		skipped "updates $1 nftables" "only Sluice is measured at this size"
	else
		read -ra UPDATES_PEERS <<<"$AGENTS"
	fi
	if [[ " ${SIZES_IPTABLES:-} " == *" $1 "* ]]; then
		UPDATES_PEERS+=(iptables)
	else
		skipped "updates $1 iptables" "only at SIZES_IPTABLES (${SIZES_IPTABLES:-none})"
	fi
}

# calls_countable: whether the kernel allows counting system calls.
calls_countable() {
	local group why
	group=$(cgroup_root)/bench-calls
	why=$(mktemp)
	mkdir "$group"
	"$BENCH_SYSCALLS" begin "$group" "$PEER_CALLS" >"$why" 2>&1 || {
		skipped "updates, system calls" "$(last_line "$why")"
		PEER_CALLS=''
	}
	rm -rf /sys/fs/bpf/bench-calls "$why"
	rmdir "$group"
}

part_updates() {
	local size rolling=$ROLLING
	PEER_CALLS=/sys/fs/bpf/bench-calls
	calls_countable
	for size in $SIZES; do
		if ((${size#*x} <= 200000)) || has_memory 10 "updates $size"; then
			updates_peers "$size"
			isolated "updates $size" updates_at "$size" "$rolling" "${UPDATES_PEERS[@]}"
		fi
		rolling=$ROLLING_ELSEWHERE
	done
	PEER_CALLS=''
}

# ---- The cost of one agent for the API server. ----

# api_cgroup: moves the API server to its own cgroup, outside of the agents' cgroup, whose CPU time is counted in microseconds.
api_cgroup() {
	API_CGROUP=$(cgroup_root)/bench-api
	mkdir -p "$API_CGROUP"
	echo "$CLUSTER_API" >"$API_CGROUP/cgroup.procs"
}

# cost_of PEER: measures a start and some changes; the peer `nobody` stands for no agent.
cost_of() {
	local part="cost 1x$ENDPOINTS $1"
	[[ ! -e $OUT/$1 ]] || return 0
	measure server "$API_CGROUP" >"$LAB_DIR/before"
	if [[ $1 == nobody ]]; then
		PEER=nobody
		export PEER
		sleep 5
	elif ! peer_starts "$1"; then
		give_up_peer "$1" "$part"
		return 0
	fi
	keep_records "$part start" measure served "$API_CGROUP" "1x$ENDPOINTS" "$LAB_DIR/before" || true
	keep_records "$part changes" measure cost "$API_CGROUP" "1x$ENDPOINTS" "$COST_CHANGES" 30 || true
	[[ $1 == nobody ]] || peer_ends
}

cost_at() {
	local peer
	bench_cluster
	measure fill "1x$ENDPOINTS" "$BENCH_PORT" Cluster
	measure count "$NODE_ADDRESS"
	api_cgroup
	for ((ROUND = 1; ROUND <= ROUNDS; ROUND++)); do
		for peer in nobody nftables sluice; do cost_of "$peer"; done
	done
	keep_records "cost, extrapolated" measure extrapolate "$RECORDS" "1x$ENDPOINTS" "$NODES" "$NODES_ENDPOINTS" || true
}

part_cost() {
	OUT=$(mktemp -d)
	isolated cost cost_at
}
