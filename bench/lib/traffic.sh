# SPDX-License-Identifier: Apache-2.0
# The parts of bench/run that measure packets per second, connections per second, and how both depend on size. Sourced by
# bench/lib/parts.
# shellcheck shell=bash

# Separate links, client - node - worker-a, because a bridge between them would dominate the measurement.
FAST_CLIENTS=10.64.0.0/15
read -ra PATHS <<<"$ROUTES"
# For connections directly to endpoints: only the endpoint that is addressed may answer.
DIRECT=(0.0.0.0 0)

# fast_link WHO DEVICE NETWORK: adds a link from the node's DEVICE (.1) to WHO's device of the same name (.2).
fast_link() {
	local who
	ip -n "$LAB-node" link add "$2" type veth peer name "$2" netns "$LAB-$1"
	for who in node "$1"; do ip -n "$LAB-$who" link set "$2" up; done
	for who in node "$1"; do
		# A device accepts frames from an XDP program or the generator only if it polls, and GRO makes it poll (if GRO is set before
		# the device is up, the device's XDP features do not show it). XDP also needs complete checksums. The same for all paths.
		nsenter --net="/run/netns/$LAB-$who" ethtool -K "$2" gro on tx off >/dev/null
	done
	ip -n "$LAB-node" address add "$3.1/24" dev "$2"
	ip -n "$LAB-$1" address add "$3.2/24" dev "$2"
	ip -n "$LAB-node" neighbour replace "$3.2" lladdr "$(fast_mac "$1" "$2")" dev "$2" nud permanent
	ip -n "$LAB-$1" neighbour replace "$3.1" lladdr "$(fast_mac node "$2")" dev "$2" nud permanent
}

fast_mac() { ip -n "$LAB-$1" -json link show dev "$2" | jq -r '.[0].address'; }

# fast_links: makes the links that all measured paths use.
fast_links() {
	fast_link client fast0 10.1.0
	fast_link worker-a fast1 10.2.0
	ip -n "$LAB-client" route replace "$NODE_ADDRESS/32" via 10.1.0.1
	ip -n "$LAB-client" route replace "$ENDPOINT_RANGE" via 10.1.0.1
	ip -n "$LAB-client" route replace 10.96.0.0/16 via 10.1.0.1
	ip -n "$LAB-client" route add local "$FAST_CLIENTS" dev lo
	ip -n "$LAB-node" route replace "$ENDPOINT_RANGE" via 10.2.0.2
	ip -n "$LAB-node" route add "$FAST_CLIENTS" via 10.1.0.2
	ip -n "$LAB-worker-a" route add 10.1.0.0/24 via 10.2.0.1
	ip -n "$LAB-worker-a" route add "$FAST_CLIENTS" via 10.2.0.1
	LAB_DEVICES=eth0,fast0,fast1
}

# no_time_wait: prevents TIME_WAIT at the server. Otherwise the next path's connections would meet such sockets of the
# previous path, with timestamps that are not continuous: the server would treat a SYN as an old one, and the client would
# retry a second later.
no_time_wait() { lab_in worker-a sysctl -qw net.ipv4.tcp_max_tw_buckets=0; }

# serving MODE PORT: starts that server on worker-a, and waits until it accepts connections.
serving() {
	lab_start worker-a "serve-$1.log" "$BENCH/bench_serve" "$1" "$2"
	# shellcheck disable=SC2016  # expanded inside
	lab_wait 10 lab_in worker-a bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"' connect "$2" || die "no server at port $2"
}

# path_starts NAME: starts the path's peer; plain has none. Conntrack entries of another path's flows would fill its table, and
# with a full table packets are dropped.
path_starts() {
	lab_in node conntrack -F >/dev/null 2>&1 || true
	[[ $1 == plain ]] || peer_starts "$1"
}

path_ends() {
	[[ $1 == plain ]] || peer_ends
}

# each_path PART: calls PART_of NAME for each path, which take turns within each round.
each_path() {
	local round path
	for ((round = 1; round <= ROUNDS; round++)); do
		for path in "${PATHS[@]}"; do
			if path_starts "$path"; then
				"$1_of" "$path"
				path_ends "$path"
			else
				not_ready "$1 $path"
			fi
		done
	done
}

# first_endpoint SERVICE: prints the first endpoint of the service load-SERVICE; see bench/lib/objects.py.
first_endpoint() { printf '10.128.%d.%d\n' $(($1 * 64 / 256)) $(($1 * 64 % 256)); }

# path_target NAME: prints the client's destination: the node port, or for plain an endpoint.
path_target() {
	if [[ $1 == plain ]]; then echo 10.128.0.1 80; else echo "$NODE_ADDRESS" "$BENCH_PORT"; fi
}

# ---- Packets a second of established flows. ----

# packets SENDER PROTOCOL FLOWS PATH ARGUMENT...: runs the generator once; the sender flood is live frames with threaded NAPI
# on the node.
packets() {
	local sender=$1 protocol=$2 flows=$3 path=$4
	lab_in client "$BENCH/bench_frames" "${sender/flood/live}" "${@:5}" "$SPAN" | python3 "$SLUICE_ROOT/bench/lib/measure.py" add packets \
		round="$round" sender="$sender" protocol="$protocol" flows="$flows" path="$path" | keep
}

# node_threaded 0|1: turns threaded NAPI for the client's frames on the node on or off. The thread gets the other processor,
# so that the generator is never the bottleneck. Frames that the thread does not process in time are lost at the device.
node_threaded() {
	# The devices of a network namespace are in a sysfs that is mounted in it.
	# shellcheck disable=SC2016  # expanded inside
	nsenter --net="/run/netns/$LAB-node" unshare --mount bash -c 'mount -t sysfs bench /sys && echo "$1" >/sys/class/net/fast0/threaded' \
		threaded "$1"
}

# packets_of PATH: measures live frames and, for UDP, a socket; with one flow and with many.
packets_of() {
	local path=$1 flows protocol address port mac
	read -r address port < <(path_target "$path")
	mac=$(fast_mac node fast0)
	for protocol in udp tcp; do
		for flows in 1 "$FLOWS"; do
			lab_in client "$BENCH/bench_frames" open "$FRAMES" fast0 "$mac" "$protocol" "$address" "$port" "$flows" || {
				skipped "packets $path $protocol $flows" "the flows could not be opened"
				continue
			}
			packets live "$protocol" "$flows" "$path" "$FRAMES" fast0 "$mac" "$protocol" "$address" "$port" "$flows"
			if node_threaded 1; then
				packets flood "$protocol" "$flows" "$path" "$FRAMES" fast0 "$mac" "$protocol" "$address" "$port" "$flows"
				node_threaded 0
			fi
			[[ $protocol == tcp ]] || packets socket udp "$flows" "$path" "$FRAMES" "$address" "$port" "$flows"
		done
	done
}

part_packets() {
	local size=10
	FRAMES=/sys/fs/bpf/bench-frames
	bench_cluster
	measure fill "1x$size" "$BENCH_PORT" Cluster TCP UDP
	fast_links
	lab_in worker-a "$BENCH/bench_frames" receive fast1 "$FRAMES" "$(first_endpoint 0)" "$size" 80
	lab_in client "$BENCH/bench_frames" swallow fast0 "$FRAMES"
	each_path packets
	rm -rf "$FRAMES"
	cluster_down
}

# ---- Connections a second, and bulk. ----

# connections WHO PATH ADDRESS PORT SPREAD FIRST COUNT: runs the generator once; COUNT endpoints from FIRST on may answer.
connections() {
	lab_in "$1" "$BENCH/bench_connect" load "$3" "$4" "$5" "$SPAN" 8 "$6" "$7" |
		python3 "$SLUICE_ROOT/bench/lib/measure.py" add connections round="$round" from="$1" path="$2" endpoints="$ENDPOINTS" | keep
}

direct_connections() { connections "$1" direct "$(first_endpoint 0)" 80 "$ENDPOINTS" "${DIRECT[@]}"; }

# service_connections WHO PATH ADDRESS PORT: measures connections to a service with all endpoints.
service_connections() { connections "$@" 1 "$(first_endpoint 0)" "$ENDPOINTS"; }

# bulk WHO PATH ADDRESS PORT: measures the throughput of one connection to a service with one endpoint.
bulk() {
	lab_in "$1" "$BENCH/bench_connect" bulk "$3" "$4" "$SPAN" |
		python3 "$SLUICE_ROOT/bench/lib/measure.py" add bulk round="$round" from="$1" path="$2" endpoints=1 | keep
}

# connections_of PATH: measures connections through the node, and from the node itself, which involve neither XDP nor
# forwarding.
connections_of() {
	if [[ $1 == plain ]]; then
		direct_connections client
		direct_connections node
		bulk client direct "$BULK_ENDPOINT" 81
		bulk node direct "$BULK_ENDPOINT" 81
		return 0
	fi
	service_connections client "$1" "$NODE_ADDRESS" "$BENCH_PORT"
	bulk client "$1" "$NODE_ADDRESS" $((BENCH_PORT + 1))
	[[ $1 != sluice-* ]] || return 0
	service_connections node "$1" "$CLUSTER_ADDRESS" 80
	bulk node "$1" "$BULK_ADDRESS" 81
	# A reference without a service on the same machine at the same time, for the socket programs' cost.
	[[ $1 != sluice ]] || direct_connections node
}

part_connections() {
	CLUSTER_ADDRESS=10.96.16.0 BULK_ADDRESS=10.96.16.1 BULK_ENDPOINT=10.128.0.1
	bench_cluster
	measure fill "1x$ENDPOINTS" "$BENCH_PORT" Cluster
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: bulk, namespace: default}
		spec: {type: NodePort, clusterIP: $BULK_ADDRESS, ports: [{name: bulk, port: 81, nodePort: $((BENCH_PORT + 1)), targetPort: 81}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: bulk-0, namespace: default, labels: {kubernetes.io/service-name: bulk}}
		addressType: IPv4
		ports: [{name: bulk, port: 81, protocol: TCP}]
		endpoints: [{addresses: [$BULK_ENDPOINT], conditions: {ready: true}}]
	YAML
	fast_links
	no_time_wait
	serving answer 80
	serving sink 81
	each_path connections
	cluster_down
}

# ---- Growth. ----

# growth_sizes: prints the numbers of endpoints of the services load-1, load-2 and so on, none larger than MOST.
growth_sizes() {
	local size
	for size in $GROWTH_SIZES; do echo $((size < MOST ? size : MOST)); done | sort -nu
}

# growth_connect FROM SERVICE: measures one connection at a time, and from the node also the system call by itself. FROM is
# node (by the service's address), direct (without a service: the kernel's own cost of so many destinations), client or
# client-xdp.
growth_connect() {
	local who=${1%-xdp} size=${sizes[$2]} first
	local -a target expected
	first=$(first_endpoint "$2")
	target=("10.96.16.$2" 80 1) expected=("$first" "$size")
	[[ $1 != direct ]] || who=node target=("$first" 80 "$size") expected=("${DIRECT[@]}")
	lab_in "$who" "$BENCH/bench_connect" load "${target[@]}" "$SPAN" 1 "${expected[@]}" |
		python3 "$SLUICE_ROOT/bench/lib/measure.py" add growth round="$round" from="$1" endpoints="$size" | keep
	[[ $who == client ]] || lab_in "$who" "$BENCH/bench_connect" call "${target[@]}" 20000 |
		python3 "$SLUICE_ROOT/bench/lib/measure.py" add call round="$round" from="$1" endpoints="$size" | keep
}

# growth_rounds FROM...: measures connections to the services by turns; those to sizes between the smallest and the largest
# only in every third round.
growth_rounds() {
	local round from service last=${#sizes[@]}
	for ((round = 1; round <= ROUNDS * 3; round++)); do
		for from; do
			for service in "${!sizes[@]}"; do
				((round % 3 != 1 && service != 1 && service != last)) || growth_connect "$from" "$service"
			done
		done
	done
}

# growth_agent XDP: starts the agent with all services, from manifests in its directory.
growth_agent() {
	local all=0 size
	for size in "${sizes[@]}"; do all=$((all + size)); done
	# With the pods' range the agent treats the client as external, so that its packets need not pass the stack; XDP leaves all
	# others to tc. Each service has a TCP and a UDP port.
	lab_launch --xdp "$1" --cluster-cidr 10.244.0.0/16 --max-backends $((all * 2 + 100000)) --max-slots $((all * 4))
	lab_wait 180 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz || {
		tail -n 5 "$LAB_DIR/agent.log"
		skipped "growth, XDP $1" "the agent does not become ready with $all endpoints"
		return 1
	}
}

growth_agent_ends() {
	lab_stop "$LAB_AGENT" KILL || true
	rm -rf "$LAB_PINS"
}

# growth_connects: measures one agent with services of 10 to MOST endpoints, and then another one with XDP.
growth_connects() {
	local -a sizes
	mapfile -t -O 1 sizes < <(growth_sizes)
	lab_up growth
	rm -f "$LAB_MANIFESTS"/*
	# The first endpoint of load-0 is declared local to the node, which selects other code paths; so no requests go to that
	# service.
	python3 "$SLUICE_ROOT/bench/lib/measure.py" manifests "$LAB_MANIFESTS" 1 "${sizes[@]}"
	endpoint_routes
	fast_links
	no_time_wait
	serving answer 80
	! growth_agent off || growth_rounds node direct client
	growth_agent_ends
	! growth_agent native || growth_rounds client-xdp
	growth_agent_ends
	lab_down
}

part_growth() {
	program growth
	growth_connects
}
