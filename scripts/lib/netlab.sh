# SPDX-License-Identifier: Apache-2.0
# A small cluster of network namespaces, for the demo and for tests/net. Sourced after common.sh, as root.
# shellcheck shell=bash disable=SC2034  # what lab_up sets is for the caller
#
#                      net: one bridge, 10.0.0.0/24 and fd00:10::/64
#       ┌──────────────┬──────────────┬──────────────┬──────────────┐
#     client         node           worker-a       worker-b       worker-c      network namespaces, each with eth0
#     .100           .10            .21            .22            .23
#                     │ pod0        10.244.2.10    10.244.3.10    10.244.4.10   each worker's pod
#                    pod            zone-a         zone-b         zone-c
#                    10.244.1.10, zone-a
#
#   lab_up NAME               makes the lab; several labs with different names can exist at the same time
#   lab_down                  ends all processes in it and removes it; safe to call twice, or before lab_up
#   lab_in WHO COMMAND...     runs COMMAND in a namespace: client, net, node, pod, worker-a, worker-b or worker-c;
#                             in node and pod also in a cgroup below $LAB_CGROUP, to which the agent attaches
#   lab_start WHO LOG COMMAND...   runs COMMAND in the background, output to $LAB_DIR/LOG; its pid is in $LAB_STARTED
#   lab_stop PID [SIGNAL]     ends a process that lab_start started, and waits for it
#   lab_backends              an HTTP server (TCP 8080) and an echo server (UDP 5353) in pod and each worker; they answer
#                             "NAME PEER-ADDRESS", names web-pod, web-a, web-b, web-c
#   lab_agent [OPTION...]     starts the agent ($SLUICE) on node, with k8s/examples copied to $LAB_MANIFESTS; waits until it serves;
#                             its pid is in $LAB_AGENT; LAB_DEVICES lists its devices, SLUICE_WITHOUT kernel features that
#                             it leaves unused
#   lab_launch [OPTION...]    starts the agent without waiting
#   lab_guest                 one more pod on node, "guest" (10.244.1.11 behind pod1), in no cgroup that the agent serves,
#                             like a virtual machine: it is served by packets only
#   lab_sluice COMMAND...     runs a command of sluice on the pins of this lab
#   lab_maps                  the maps' contents, for comparison: without numbers, which may differ from start to start
#   lab_fill                  the number of entries of some maps
#   lab_traffic WHO ADDRESS PORT, lab_traffic_ends    requests without a pause, each on a new connection, none of which may fail
#   lab_keep [COUNT], lab_keep_ends   connections that stay open, by sockets, tc and XDP, and make requests all the time; at the end all
#                             must have had their replies, and only from their first backend
#   lab_ask WHO ARGUMENT...   runs scripts/lib/ask.py in a namespace
#   lab_offload on|off        transmit offloads of every eth0; off before XDP: a packet that a veth passes to an XDP program may
#                             lack its checksum, and a program that redirects it would send it that way
#
# Set by lab_up: LAB (prefix of the namespaces), LAB_DIR (logs), LAB_CGROUP, LAB_PINS, LAB_MANIFESTS. All names contain
# NAME and the pid of the shell, so that nothing else is affected. nsenter, not `ip netns exec`, which would hide
# the bpf and cgroup file systems below a new /sys.

# shellcheck source=scripts/lib/sandbox.sh
declare -F cgroup_root >/dev/null || source "$SLUICE_ROOT/scripts/lib/sandbox.sh"

LAB='' LAB_DIR='' LAB_CGROUP='' LAB_PINS='' LAB_MANIFESTS='' LAB_AGENT='' LAB_STARTED='' LAB_DEVICES=eth0
LAB_PIDS=()
LAB_TRAFFIC=()
LAB_KEPT=()
LAB_WORKERS=(worker-a worker-b worker-c)
SLUICE=${SLUICE:-$BUILD_ROOT/sluice}

# lab_number WHO: the last part of WHO's address on the bridge.
lab_number() {
	case $1 in
	client) echo 100 ;;
	node) echo 10 ;;
	worker-a) echo 21 ;;
	worker-b) echo 22 ;;
	worker-c) echo 23 ;;
	esac
}

# lab_pod_network WHO: the third part of the addresses of WHO's pods.
lab_pod_network() {
	case $1 in
	node | pod) echo 1 ;;
	worker-a) echo 2 ;;
	worker-b) echo 3 ;;
	worker-c) echo 4 ;;
	esac
}

lab_namespace() {
	ip netns add "$LAB-$1"
	# In the namespace's own settings, before any device exists: no duplicate address detection, no router solicitations, no
	# ICMP redirects, so that everything is up at once and routes do not change.
	# shellcheck disable=SC2016  # expanded inside
	nsenter --net="/run/netns/$LAB-$1" bash -c '
		ip link set lo up
		cd /proc/sys/net
		for setting in ipv6/conf/{all,default}/{accept_dad,router_solicitations} ipv4/conf/{all,default}/{rp_filter,send_redirects}; do
			echo 0 >"$setting"
		done'
}

# lab_attach WHO: connects eth0 of WHO to the bridge. (Scenarios with other uplinks replace this function.)
lab_attach() {
	lab_port "$1" eth0
	lab_address "$1"
}

# lab_port WHO DEVICE [PORT]: a veth between WHO and the bridge, whose end there is PORT (to-WHO).
lab_port() {
	local who=$1 device=$2 port=${3:-to-$1}
	ip -n "$LAB-net" link add "$port" type veth peer name "$device" netns "$LAB-$who"
	ip -n "$LAB-net" link set "$port" master bridge up
	ip -n "$LAB-$who" link set "$device" up
	# A veth delivers the frames of an XDP program only to a peer that polls; GRO makes it poll.
	nsenter --net="/run/netns/$LAB-net" ethtool -K "$port" gro on
}

# lab_address WHO: adds WHO's addresses on the bridge to its eth0.
lab_address() {
	local number
	number=$(lab_number "$1")
	ip -n "$LAB-$1" address add "10.0.0.$number/24" dev eth0
	ip -n "$LAB-$1" address add "fd00:10::$number/64" dev eth0 nodad
}

# lab_worker WHO: sets up another node, whose only pod is an address of its own.
lab_worker() {
	local who=$1 pods number
	number=$(lab_number "$who")
	pods=$(lab_pod_network "$who")
	ip -n "$LAB-$who" address add "10.244.$pods.10/32" dev lo
	ip -n "$LAB-$who" address add "fd00:10:244:$pods::10/128" dev lo nodad
	ip -n "$LAB-$who" route add 10.244.1.0/24 via 10.0.0.10
	ip -n "$LAB-$who" route add fd00:10:244:1::/64 via fd00:10::10
	ip -n "$LAB-node" route add "10.244.$pods.0/24" via "10.0.0.$number"
	ip -n "$LAB-node" route add "fd00:10:244:$pods::/64" via "fd00:10::$number"
}

# lab_pod WHO DEVICE NUMBER: adds a pod on the node, routed as by many CNIs: a /32 and a /128, with the host's end as
# gateway.
lab_pod() {
	local who=$1 device=$2 number=$3 host="02:00:00:00:$3:01" own="02:00:00:00:$3:02"
	ip -n "$LAB-node" link add "$device" type veth peer name eth0 netns "$LAB-$who"
	ip -n "$LAB-node" link set "$device" address "$host"
	ip -n "$LAB-$who" link set eth0 address "$own"
	ip -n "$LAB-node" link set "$device" up
	ip -n "$LAB-$who" link set eth0 up
	ip -n "$LAB-$who" address add "10.244.1.$number/32" dev eth0
	ip -n "$LAB-$who" address add "fd00:10:244:1::$number/128" dev eth0 nodad
	ip -n "$LAB-$who" neighbour add 169.254.1.1 lladdr "$host" dev eth0 nud permanent
	ip -n "$LAB-$who" neighbour add fe80::1 lladdr "$host" dev eth0 nud permanent
	ip -n "$LAB-$who" route add default via 169.254.1.1 dev eth0 onlink
	ip -n "$LAB-$who" route add default via fe80::1 dev eth0 onlink
	ip -n "$LAB-node" route add "10.244.1.$number/32" dev "$device"
	ip -n "$LAB-node" route add "fd00:10:244:1::$number/128" dev "$device"
	# Permanent, because the node has no address on the device from which to send solicitations.
	ip -n "$LAB-node" neighbour add "10.244.1.$number" lladdr "$own" dev "$device" nud permanent
	ip -n "$LAB-node" neighbour add "fd00:10:244:1::$number" lladdr "$own" dev "$device" nud permanent
}

lab_guest() {
	lab_namespace guest
	lab_pod guest pod1 11
}

lab_routing() {
	nsenter --net="/run/netns/$LAB-node" bash -c 'cd /proc/sys/net; echo 1 >ipv4/ip_forward; echo 1 >ipv6/conf/all/forwarding'
	# The client's routes to addresses that no device holds: service and load-balancer addresses.
	ip -n "$LAB-client" route add 10.96.0.0/16 via 10.0.0.10
	ip -n "$LAB-client" route add 203.0.113.0/24 via 10.0.0.10
	ip -n "$LAB-client" route add fd00:10:96::/112 via fd00:10::10
	ip -n "$LAB-client" route add 2001:db8:113::/64 via fd00:10::10
	# On the node, connect() needs some route to service addresses; the programs act before the route is used.
	ip -n "$LAB-node" route add default via 10.0.0.1
	ip -n "$LAB-node" route add default via fd00:10::1
	# A router that drops everything: without a neighbour entry no packet would reach the egress hooks.
	ip -n "$LAB-node" neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
	ip -n "$LAB-node" neighbour replace fd00:10::1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
}

lab_up() {
	local who
	LAB=$1-$$
	LAB_CGROUP=$(cgroup_root)/$LAB
	LAB_PINS=/sys/fs/bpf/$LAB
	LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/$LAB.XXXXXX")
	LAB_MANIFESTS=$LAB_DIR/manifests
	LAB_PIDS=()
	mkdir -p "$LAB_CGROUP/node" "$LAB_CGROUP/pod" "$LAB_MANIFESTS"
	for who in net client node pod "${LAB_WORKERS[@]}"; do lab_namespace "$who"; done
	ip -n "$LAB-net" link add bridge type bridge
	ip -n "$LAB-net" link set bridge up
	for who in client node "${LAB_WORKERS[@]}"; do lab_attach "$who"; done
	for who in "${LAB_WORKERS[@]}"; do lab_worker "$who"; done
	lab_pod pod pod0 10
	lab_routing
	cp "$SLUICE_ROOT"/k8s/examples/*.yaml "$LAB_MANIFESTS" 2>/dev/null || true
}

lab_down() {
	local who pid
	[[ -n $LAB ]] || return 0
	for pid in "${LAB_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	for pid in "${LAB_PIDS[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$LAB_PINS"
	for who in client node pod guest net "${LAB_WORKERS[@]}"; do ip netns delete "$LAB-$who" 2>/dev/null || true; done
	for _ in 1 2 3 4 5; do
		[[ -d $LAB_CGROUP ]] || break
		find "$LAB_CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.2
	done
	rm -rf "$LAB_DIR"
	LAB='' LAB_PIDS=() LAB_AGENT=''
}

lab_in() {
	local who=$1
	shift
	case $who in
	node | pod)
		# shellcheck disable=SC2016  # expanded inside
		bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec nsenter --net="$@"' lab_in \
			"$LAB_CGROUP/$who" "/run/netns/$LAB-$who" "$@"
		;;
	*) nsenter --net="/run/netns/$LAB-$who" "$@" ;;
	esac
}

lab_start() {
	local who=$1 log=$2
	shift 2
	# A single process from here to COMMAND, so that its pid is the one to signal.
	if [[ $who == node || $who == pod ]]; then
		# shellcheck disable=SC2016  # expanded inside
		bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec nsenter --net="$@"' lab_start \
			"$LAB_CGROUP/$who" "/run/netns/$LAB-$who" "$@" >>"$LAB_DIR/$log" 2>&1 </dev/null &
	else
		nsenter --net="/run/netns/$LAB-$who" "$@" >>"$LAB_DIR/$log" 2>&1 </dev/null &
	fi
	LAB_STARTED=$!
	LAB_PIDS+=("$LAB_STARTED")
}

lab_stop() {
	local pid=$1 code=0 other
	local -a others=()
	kill -"${2:-TERM}" "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || code=$?
	# From now on the pid may be reused.
	for other in "${LAB_PIDS[@]}"; do
		((other == pid)) || others+=("$other")
	done
	LAB_PIDS=(${others[@]+"${others[@]}"})
	return "$code"
}

# lab_wait SECONDS COMMAND...: waits until COMMAND succeeds; fails after SECONDS, but not before four attempts per second,
# which take longer on a busy machine.
lab_wait() {
	local until=$((SECONDS + $1)) looks=$(($1 * 4))
	shift
	until "$@" >/dev/null 2>&1; do
		looks=$((looks - 1))
		((SECONDS < until || looks > 0)) || return 1
		sleep 0.05
	done
}

lab_backends() {
	local who
	for who in pod "${LAB_WORKERS[@]}"; do
		lab_start "$who" "backend-$who.log" python3 "$SLUICE_ROOT/scripts/lib/backend.py" "web-${who#worker-}" 8080 5353
	done
	for who in pod "${LAB_WORKERS[@]}"; do
		lab_wait 10 lab_in "$who" python3 "$SLUICE_ROOT/scripts/lib/ask.py" tcp 127.0.0.1 8080 ||
			die "cannot start the backend in $who: $(cat "$LAB_DIR/backend-$who.log")"
	done
}

lab_launch() {
	lab_start node agent.log "$SLUICE" agent --manifests "$LAB_MANIFESTS" --node node --devices "$LAB_DEVICES" \
		--cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --health 127.0.0.1:10256 --metrics 127.0.0.1:10249 \
		${SLUICE_WITHOUT:+--without "$SLUICE_WITHOUT"} "$@"
	LAB_AGENT=$LAB_STARTED
}

lab_agent() {
	lab_launch "$@"
	if ! lab_wait 30 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz; then
		cat "$LAB_DIR/agent.log"
		printf 'the agent did not become ready; its log is above\n'
		return 1
	fi
}

lab_sluice() { lab_in node "$SLUICE" "$1" "${@:2}" --pins "$LAB_PINS"; }

# Ids of removed endpoints stay until no flow can refer to them: they are in no set and serve nothing.
lab_maps() {
	local name
	lab_sluice services -o json |
		jq -S 'map(del(.number) | .frontends |= sort_by(.kind, .address, .port)) | sort_by(.service, .protocol, .family)'
	for name in $(lab_sluice services -o json | jq -r '[.[].service | split("/")[0]] | unique[]'); do
		lab_sluice backends "$name/" -o json | jq -S 'map(select(.inClusterSet or .inLocalSet or .serving) | del(.id)) |
			sort_by(.service, .protocol, .family, .address, .port)'
	done
}

lab_fill() { lab_sluice status -o json | jq -S '.maps | {lb_frontends, lb_slots, lb_addresses} | map_values(.used?)'; }

lab_traffic() {
	# shellcheck disable=SC2016  # expanded inside
	lab_start "$1" "traffic-$1.log" bash -c 'while [[ ! -e $1 ]]; do python3 "${@:2}" --seconds 2 --json || exit 1; done' \
		traffic "$LAB_DIR/traffic-ends" "$SLUICE_ROOT/scripts/lib/ask.py" tcp "$2" "$3"
	LAB_TRAFFIC+=("$LAB_STARTED")
}

lab_traffic_ends() {
	local pid
	touch "$LAB_DIR/traffic-ends"
	for pid in "${LAB_TRAFFIC[@]}"; do
		wait "$pid" || die "requests failed: $(grep -hv '"failed": {}' "$LAB_DIR"/traffic-*.log | tail -n 3)"
	done
	printf 'requests, none of which failed: %s\n' \
		"$(cat "$LAB_DIR"/traffic-*.log | jq -s 'map(.answers | add) | add')"
	LAB_TRAFFIC=()
}

# Connections to the example service of k8s/examples; by XDP if the backend is remote.
lab_keep() {
	local ask who address port i
	for ask in "pod 10.96.0.80 80" "client 10.0.0.10 30080" "client fd00:10::10 30080"; do
		read -r who address port <<<"$ask"
		for ((i = 0; i < ${1:-4}; i++)); do
			lab_start "$who" "kept-${#LAB_KEPT[@]}" python3 "$SLUICE_ROOT/tests/net/lib/http_connection.py" "$address" "$port" "$LAB_DIR"
			LAB_KEPT+=("$LAB_STARTED")
		done
	done
	lab_wait 30 lab_kept || die "not every connection comes about: $(cat "$LAB_DIR"/kept-*)"
}

# lab_kept: whether all connections of lab_keep have come about.
lab_kept() {
	local pid
	for pid in "${LAB_KEPT[@]}"; do [[ -e $LAB_DIR/connected-$pid ]] || return 1; done
}

lab_keep_ends() {
	local pid
	touch "$LAB_DIR/stop"
	for pid in "${LAB_KEPT[@]}"; do
		wait "$pid" || die "a connection did not go on: $(cat "$LAB_DIR"/kept-*)"
	done
	printf 'answers on %d connections that stayed: %s\n' "${#LAB_KEPT[@]}" "$(cat "$LAB_DIR"/kept-* | jq -s add)"
	LAB_KEPT=()
}

lab_ask() {
	local who=$1
	shift
	lab_in "$who" python3 "$SLUICE_ROOT/scripts/lib/ask.py" "$@"
}

lab_offload() {
	local who
	for who in client node pod "${LAB_WORKERS[@]}"; do
		nsenter --net="/run/netns/$LAB-$who" ethtool -K eth0 tx "$1" >/dev/null
	done
}
