#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real programs as servers, as clients and as proxies, each in both families through sockets, tc, XDP in the driver and generic XDP (issue 25: what
# works unchanged stays so): Debian's, and
# small ones of our own with Go's, Rust's, Java's, Node's and Python's libraries, io_uring, sends without copies, gRPC that is silent for 90 s, and
# 10,000 idle connections; and backends that change meanwhile. For the long form; by itself with scripts/test net/real_programs. REAL_PROGRAMS names what
# scripts/lib/real-programs unpacked and built.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/net/programs/servers.sh
source "$SLUICE_ROOT/tests/net/programs/servers.sh"
# shellcheck source=tests/net/programs/clients.sh
source "$SLUICE_ROOT/tests/net/programs/clients.sh"
# shellcheck source=tests/net/programs/changing.sh
source "$SLUICE_ROOT/tests/net/programs/changing.sh"

SILENCE=90 IDLE=5000
SERVICE=10.96.0.70 NODE=10.0.0.10 BACKEND=10.244.2.10 OTHER=10.244.3.10
SERVICE6=fd00:10:96::70 NODE6=fd00:10::10 BACKEND6=fd00:10:244:2::10 OTHER6=fd00:10:244:3::10
# NAME PROTOCOL PORT NODEPORT of each server.
SERVERS=(
	"redis TCP 6379 31001" "memcached TCP 11211 31002" "nginx TCP 8081 31003" "haproxy TCP 8082 31004" "mosquitto TCP 1883 31005"
	"iperf TCP 5201 31006" "iperf-udp UDP 5201 31006" "socat TCP 7000 31007" "socat-udp UDP 7001 31008" "dns TCP 53 31009"
	"dns-udp UDP 53 31009" "dnsmasq TCP 5354 31010" "dnsmasq-udp UDP 5354 31010" "postgres TCP 5432 31011" "java TCP 8083 31012" "go TCP 8084 31013"
	"grpc TCP 8085 31014" "quic UDP 8443 31014" "rust TCP 8086 31015" "node TCP 8087 31016" "uring TCP 7002 31017" "zerocopy TCP 7003 31018"
)

# real WHO COMMAND...: runs one of the programs with its own libraries.
real() { lab_in "$1" env "${LIBRARIES[@]}" "${@:2}"; }

# serve WHO LOG COMMAND...: starts one of the programs in the background.
serve() { lab_start "$1" "$2" env "${LIBRARIES[@]}" "${@:3}"; }

find_programs() {
	local libraries paths
	REAL_PROGRAMS=${REAL_PROGRAMS:-$BUILD_ROOT/real-programs}
	[[ -e $REAL_PROGRAMS/pinned ]] ||
		die "finds no real programs in $REAL_PROGRAMS; run scripts/lib/real-programs, with apt's sources at hand."
	[[ -e $REAL_PROGRAMS/opt/pinned ]] || die "finds nothing built in $REAL_PROGRAMS/opt; run scripts/lib/real-programs."
	libraries=$(find "$REAL_PROGRAMS/usr/lib" "$REAL_PROGRAMS/lib" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd :)
	paths=$(find "$REAL_PROGRAMS/usr/lib/jvm" "$REAL_PROGRAMS/usr/lib/postgresql" -type d -name bin | paste -sd :)
	LIBRARIES=(PATH="$REAL_PROGRAMS/opt:$REAL_PROGRAMS/usr/sbin:$REAL_PROGRAMS/usr/bin:$paths:$PATH" LD_LIBRARY_PATH="$libraries")
}

manifest() {
	local name protocol port node_port
	cat <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: real, namespace: default}
		spec:
		  type: NodePort
		  clusterIP: $SERVICE
		  clusterIPs: [$SERVICE, "$SERVICE6"]
		  ipFamilies: [IPv4, IPv6]
		  ports:
	YAML
	for each in "${SERVERS[@]}"; do
		read -r name protocol port node_port <<<"$each"
		printf '  - {name: %s, protocol: %s, port: %d, nodePort: %d}\n' "$name" "$protocol" "$port" "$node_port"
	done
	slice IPv4 "$BACKEND"
	slice IPv6 "$BACKEND6"
}

# slice FAMILY ADDRESS
slice() {
	local name protocol port
	cat <<-YAML
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: real-${1,,}, namespace: default, labels: {kubernetes.io/service-name: real}}
		addressType: $1
		endpoints: [{addresses: ["$2"], nodeName: worker-a}]
		ports:
	YAML
	for each in "${SERVERS[@]}"; do
		read -r name protocol port _ <<<"$each"
		printf -- '- {name: %s, protocol: %s, port: %d}\n' "$name" "$protocol" "$port"
	done
}

# each WAY WHO TO COLUMN [SECONDS]: uses every server by that way; COLUMN of SERVERS is the port. Waits SECONDS for servers
# to be ready.
each() {
	local way=$1 to=$3 column=$4 each log
	local -a words
	WHO=$2
	for each in "${SERVERS[@]}"; do
		read -ra words <<<"$each"
		log=$LAB_DIR/${words[0]%-udp}.log
		lab_wait "${5:-0}" "ask_${words[0]}" "$to" "${words[column]}" || die "${words[0]} by $way: $(tail -n 5 "$log" 2>/dev/null)"
	done
	printf '%s: %d servers\n' "$way" "${#SERVERS[@]}"
}

# silent_begin WHO TO COLUMN: opens connections that stay silent for a while, in parallel with the other traffic.
silent_begin() {
	local grpc memcached
	grpc=$(port_of grpc "$3") memcached=$(port_of memcached "$3")
	serve "$1" silent-grpc.log talk grpc "$(at "$2" "$grpc")" "$SILENCE"
	SILENT+=("$LAB_STARTED")
	serve "$1" silent-idle.log python3 "$SLUICE_ROOT/tests/net/programs/idle.py" "$2" "$memcached" "$IDLE" "$SILENCE"
	SILENT+=("$LAB_STARTED")
}

silent_end() {
	local pid
	for pid in "${SILENT[@]}"; do wait "$pid" || die "connections that were silent by $1: $(cat "$LAB_DIR"/silent-*.log)"; done
	SILENT=()
	printf '%s: silent for %d s: gRPC, and %d connections, in each family\n' "$1" "$SILENCE" "$IDLE"
}

# port_of NAME COLUMN: the port of a server.
port_of() { printf '%s\n' "${SERVERS[@]}" | awk -v name="$1" -v column="$(($2 + 1))" '$1 == name && !found++ { print $column }'; }

# through WAY WHO COLUMN TO TO6: all that one way carries, in both families.
through() {
	local way=$1 who=$2 column=$3 to
	for to in "${@:4}"; do silent_begin "$who" "$to" "$column"; done
	for to in "${@:4}"; do
		each "$way, $to" "$who" "$to" "$column"
		[[ $to == *:* ]] && resolve "$SERVICE6" || resolve "$SERVICE"
		changing "$way, $to" "$who" "$to" "$column"
	done
	silent_end "$way"
}

# outcome NAME: the outcome's count.
outcome() { lab_sluice status -o json | jq ".outcomes.$1"; }

# ask_proxies NAME SERVICE HTTP DNS: proxies in a pod that lead to the service.
ask_proxies() {
	local port
	WHO=pod
	proxies "$@"
	for port in "$3" $(($3 + 1)); do
		lab_wait 60 ask_nginx 127.0.0.1 "$port" || die "the proxy at $port: $(tail -n 5 "$LAB_DIR/"*"-$1-proxy.log")"
	done
	for port in "$4" $(($4 + 1)); do
		lab_wait 60 dig_for 127.0.0.1 "$port" +notcp || die "the forwarder at $port: $(tail -n 5 "$LAB_DIR/"*"-$1-proxy.log")"
	done
	printf 'proxies, %s: nginx, haproxy, unbound, dnsmasq\n' "$1"
}

find_programs
lab_up real
manifest >"$LAB_MANIFESTS/real.yaml"
servers
SILENT=()
for to in "$BACKEND" "$BACKEND6"; do each "themselves, $to" worker-a "$to" 2 60; done
lab_offload off
# A bridge port with GRO forwards unfinished checksums, which XDP would send out unchanged.
nsenter --net="/run/netns/$LAB-net" ethtool -K to-node tx off >/dev/null
lab_agent --xdp off
through sockets pod 2 "$SERVICE" "$SERVICE6"
ask_proxies IPv4 "$SERVICE" 9081 5300
ask_proxies IPv6 "$SERVICE6" 9083 5302
through tc client 3 "$NODE" "$NODE6"
(($(outcome flow_redirect) > 0 && $(outcome flow_xdp) == 0)) || die "tc carried nothing"
for mode in native generic; do
	lab_stop "$LAB_AGENT" || true
	lab_agent --xdp "$mode"
	[[ $(ip -n "$LAB-node" link show eth0) == *" xdp${mode#native} "* ]] || die "XDP ($mode) is not: $(ip -n "$LAB-node" link show eth0)"
	before=$(outcome flow_xdp)
	through "XDP ($mode)" client 3 "$NODE" "$NODE6"
	(($(outcome flow_xdp) > before)) || die "XDP ($mode) carried nothing"
done
