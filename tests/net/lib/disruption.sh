# SPDX-License-Identifier: Apache-2.0
# Flows that never pause, over every path, for scenarios that replace agents under them, and checks of these flows. Sourced
# after scenario.sh, with SEED set. MAPS, OUTCOMES and FLOWS hold the state when all flows were open.
# shellcheck shell=bash

PORT=7000 NODE_PORT=30700
HELPER=$SLUICE_ROOT/tests/net/lib/disruption.py

# The outcomes that may be counted once all flows are open. All others are unexpected: drops, refusals, new flows.
EXPECTED=(not_ip other_protocol unrelated left_to_tc flow_stack flow_redirect flow_xdp
	socket_kept socket_restored socket_unrelated)

# ---- The lab. ----

# The client's second path to the node. The client's end does not poll, so it receives no frames from XDP: packets that
# arrive by eth1 go to remote backends by XDP and come back by tc; packets that arrive by eth0 take XDP both ways.
second_uplink() {
	local who number
	ip -n "$LAB-client" link add eth1 type veth peer name eth1 netns "$LAB-node"
	for who in client node; do
		number=$(lab_number "$who")
		ip -n "$LAB-$who" link set eth1 up
		lab_in "$who" ethtool -K eth1 tx off >/dev/null
		ip -n "$LAB-$who" address add "10.0.1.$number/24" dev eth1
		ip -n "$LAB-$who" address add "fd00:11::$number/64" dev eth1 nodad
	done
}

# The kernel takes a device's queue away while it makes or removes this qdisc, and packets sent meanwhile are lost. With
# another owner's qdisc present, agents can change between tcx and clsact without that.
make_clsact() {
	local device
	for device in eth0 eth1 pod0 pod1; do lab_in node tc qdisc add dev "$device" clsact; done
}

# addresses WHO: the addresses of WHO's server.
addresses() {
	local last=10 network
	[[ $1 != node ]] || { printf '%s\n' 10.0.0.10 fd00:10::10 && return; }
	[[ $1 != client ]] || { printf '%s\n' 10.0.0.100 fd00:10::100 && return; }
	[[ $1 != guest ]] || last=11
	network=$(lab_pod_network "${1/guest/pod}")
	printf '%s\n' "10.244.$network.$last" "fd00:10:244:$network::$last"
}

# slice FAMILY LINE: an EndpointSlice with the addresses on that line of addresses().
slice() {
	local who
	cat <<-YAML
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: lines-${1,,}, namespace: default, labels: {kubernetes.io/service-name: lines}}
		addressType: $1
		ports: [{name: tcp, port: $PORT, protocol: TCP}, {name: udp, port: $PORT, protocol: UDP}]
		endpoints:
	YAML
	for who in node:pod node:guest "${LAB_WORKERS[@]}"; do
		printf '  - {addresses: ["%s"], nodeName: %s}\n' "$(addresses "${who#*:}" | sed -n "$2p")" "${who%:*}"
	done
}

manifests() {
	cat <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: lines, namespace: default}
		spec:
		  type: LoadBalancer
		  clusterIP: 10.96.0.70
		  clusterIPs: [10.96.0.70, "fd00:10:96::70"]
		  ipFamilies: [IPv4, IPv6]
		  ipFamilyPolicy: RequireDualStack
		  ports:
		    - {name: tcp, port: $PORT, protocol: TCP, nodePort: $NODE_PORT}
		    - {name: udp, port: $PORT, protocol: UDP, nodePort: $NODE_PORT}
		status: {loadBalancer: {ingress: [{ip: 203.0.113.70}, {ip: "2001:db8:113::70"}]}}
	YAML
	slice IPv4 1
	slice IPv6 2
}

# disruption_lab NAME: the lab with all of the above and with running servers, but no agent yet.
disruption_lab() {
	lab_up "$1"
	lab_guest
	lab_offload off
	second_uplink
	make_clsact
	SERVERS+=("${LAB_WORKERS[@]}")
	ip -n "$LAB-client" route add 10.244.1.0/24 via 10.0.0.10
	ip -n "$LAB-client" route add fd00:10:244:1::/64 via fd00:10::10
	LAB_DEVICES=eth0,eth1
	manifests >"$LAB_MANIFESTS/lines.yaml"
	serve
}

# ---- Those who talk. ----

# both TITLE IPV4 IPV6 PORT BACKENDS: one path for each family, in the helper's syntax.
both() {
	printf '%s=%s=%d=%s\n' "$1-ipv4" "$2" "$4" "$5" "$1-ipv6" "$3" "$4" "$5"
}

# plain WHO NAME: a path directly to NAME's server, through no service, as a node's own traffic goes.
plain() {
	local -a own
	mapfile -t own < <(addresses "$2")
	both "$1-plain-$2" "${own[@]}" "$PORT" "$2"
}

# paths WHO: WHO's paths. The guest is in no cgroup that the agent serves, so its device's programs do for it what the socket
# programs do for the pod and the node.
paths() {
	local remote=worker-a,worker-b,worker-c
	local -a cluster=(10.96.0.70 fd00:10:96::70 "$PORT") public=(203.0.113.70 2001:db8:113::70 "$PORT")
	case $1 in
	pod)
		both pod-socket-local "${cluster[@]}" guest
		both pod-socket-remote "${cluster[@]}" "$remote"
		plain pod client # egress
		;;
	node)
		both node-socket-local "${cluster[@]}" pod,guest
		both node-socket-remote "${cluster[@]}" "$remote"
		plain node pod # as the kubelet probes
		plain node client
		;;
	guest)
		both guest-tc-local "${cluster[@]}" pod
		both guest-tc-itself "${cluster[@]}" guest
		both guest-tc-remote "${cluster[@]}" "$remote"
		;;
	client)
		both client-nodeport-tc-local 10.0.1.10 fd00:11::10 "$NODE_PORT" pod,guest
		both client-nodeport-tc-remote 10.0.1.10 fd00:11::10 "$NODE_PORT" "$remote"
		both client-nodeport-xdp-remote 10.0.0.10 fd00:10::10 "$NODE_PORT" "$remote"
		both client-public-tc-local "${public[@]}" pod,guest
		both client-public-xdp-remote "${public[@]}" "$remote"
		plain client node # as people log in
		;;
	esac
}

# The helpers use all CPU time that is left, so the agent and other processes take precedence.
helper() { lab_start "$1" "$2" nice -n 10 python3 "$HELPER" "${@:3}"; }
listens() { [[ $(lab_in "$1" ss -Hln "sport = :$PORT" | wc -l) == 4 ]]; }

SERVERS=(pod guest node client)

serve() {
	local who
	local -a own
	for who in "${SERVERS[@]}"; do
		mapfile -t own < <(addresses "$who")
		helper "$who" "serve-$who" serve "$who" "$PORT" "${own[@]}"
	done
	for who in "${SERVERS[@]}"; do
		lab_wait 20 listens "$who" || die "cannot start the server in $who: $(<"$LAB_DIR/serve-$who")"
	done
}

TALKERS=(pod node guest client)
declare -A TALKER # its pid
ROUND=0

log_of() { printf '%s\n' "$LAB_DIR/talk-$1"; }
has() { grep -q "^$2" "$(log_of "$1")"; }

talk() {
	local who
	local -a list
	for who in "${TALKERS[@]}"; do
		mapfile -t list < <(paths "$who")
		helper "$who" "talk-$who" talk "${list[@]}"
		TALKER[$who]=$LAB_STARTED
	done
	for who in "${TALKERS[@]}"; do
		lab_wait 120 has "$who" open || die "$who: not all flows come about: $(<"$(log_of "$who")")"
	done
}

# go_on WHEN: checks that every flow has begun and ended an exchange since the call, and that none is broken.
go_on() {
	local who
	ROUND=$((ROUND + 1))
	for who in "${TALKERS[@]}"; do kill -USR1 "${TALKER[$who]}"; done
	for who in "${TALKERS[@]}"; do
		lab_wait 120 has "$who" "round $ROUND\$" || wrong "$1: $who's flows do not go on"
		! has "$who" broken || wrong "$1: $who's flows are broken"
	done
}

# ---- What is seen. ----

dump() { lab_maps && lab_fill; }
outcomes() { lab_sluice status -o json | jq .outcomes; }

# moved: each outcome counted since the flows were opened, with its count.
moved() {
	jq -rn --argjson before "$OUTCOMES" --argjson after "$(outcomes)" \
		'$after | to_entries[] | .value -= $before[.key] | select(.value != 0) | "\(.key) \(.value)"'
}

unexpected() { moved | grep -vE "^($(IFS='|' && printf '%s' "${EXPECTED[*]}")) " || true; }

# flows: the live flow-map entries of those flows, with backend and source port.
flows() {
	lab_sluice flows --limit 0 -o json |
		jq -r '.flows[] | "\(.protocol) \(.client) \(.frontend) \(.backend) \(.source)"' | sort |
		awk 'NR == FNR { living[$2 " " $3]; next } ($1 " " $2) in living' \
			<(grep -h '^flow ' "$(log_of guest)" "$(log_of client)") -
}

# wrong WHAT: fails the test and prints the diagnostics.
wrong() {
	local who
	sleep 1
	for who in "${TALKERS[@]}"; do grep -h '^broken' "$(log_of "$who")" || true; done
	printf 'unexpected outcomes: %s\n' "$(unexpected | paste -sd ' ')"
	tail -n 15 "$LAB_DIR/agent.log"
	die "$1 (seed $SEED)"
}

# equal_flows: checks that the flow entries are the same as at the beginning.
equal_flows() { diff <(printf '%s\n' "$FLOWS") <(flows); }
