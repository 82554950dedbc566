#!/bin/bash
# shellcheck disable=SC2016  # other languages' variables
# Real programs as servers, as clients and as proxies, each through sockets, tc and XDP (issue 25: what works unchanged stays so).
# For the long form; by itself with scripts/test net/real_programs. REAL_PROGRAMS names what scripts/lib/real-programs unpacked.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/scenario.sh"

SERVICE=10.96.0.70 NODE=10.0.0.10 BACKEND=10.244.2.10
# NAME PROTOCOL PORT NODEPORT of each server.
SERVERS=(
	"redis TCP 6379 31001" "memcached TCP 11211 31002" "nginx TCP 8081 31003" "haproxy TCP 8082 31004" "mosquitto TCP 1883 31005"
	"iperf TCP 5201 31006" "iperf-udp UDP 5201 31006" "socat TCP 7000 31007" "socat-udp UDP 7001 31008" "dns TCP 53 31009"
	"dns-udp UDP 53 31009"
)

# real WHO COMMAND...: one of the programs, with the libraries that came with it.
real() { lab_in "$1" env "${LIBRARIES[@]}" "${@:2}"; }

# serve WHO LOG COMMAND...: the same in the background.
serve() { lab_start "$1" "$2" env "${LIBRARIES[@]}" "${@:3}"; }

find_programs() {
	local libraries
	REAL_PROGRAMS=${REAL_PROGRAMS:-$BUILD_ROOT/real-programs}
	[[ -e $REAL_PROGRAMS/pinned ]] ||
		die "finds no real programs in $REAL_PROGRAMS; run scripts/lib/real-programs, with apt's sources at hand."
	libraries=$(find "$REAL_PROGRAMS/usr/lib" "$REAL_PROGRAMS/lib" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd :)
	LIBRARIES=(PATH="$REAL_PROGRAMS/usr/sbin:$REAL_PROGRAMS/usr/bin:$PATH" LD_LIBRARY_PATH="$libraries")
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
		  ports:
	YAML
	for each in "${SERVERS[@]}"; do
		read -r name protocol port node_port <<<"$each"
		printf '  - {name: %s, protocol: %s, port: %d, nodePort: %d}\n' "$name" "$protocol" "$port" "$node_port"
	done
	cat <<-YAML
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: real-1, namespace: default, labels: {kubernetes.io/service-name: real}}
		addressType: IPv4
		endpoints: [{addresses: [$BACKEND], nodeName: worker-a}]
		ports:
	YAML
	for each in "${SERVERS[@]}"; do
		read -r name protocol port node_port <<<"$each"
		printf -- '- {name: %s, protocol: %s, port: %d}\n' "$name" "$protocol" "$port"
	done
}

# ---- Servers. ----

nginx_conf() {
	cat <<-CONF
		daemon off; pid $LAB_DIR/$1.pid; error_log stderr; user root; worker_processes 1; events {}
		http { access_log off; client_body_temp_path $LAB_DIR/$1.t1; proxy_temp_path $LAB_DIR/$1.t2; fastcgi_temp_path $LAB_DIR/$1.t3;
		  uwsgi_temp_path $LAB_DIR/$1.t4; scgi_temp_path $LAB_DIR/$1.t5; server { listen $2; $3 } }
	CONF
}

haproxy_conf() {
	cat <<-CONF
		defaults
		  mode http
		  timeout connect 60s
		  timeout client 60s
		  timeout server 60s
		frontend front
		  bind :$1
		  $2
	CONF
}

unbound_conf() {
	cat <<-CONF
		server:
		  directory: "$LAB_DIR"
		  pidfile: ""
		  username: ""
		  chroot: ""
		  use-syslog: no
		  interface: $1
		  access-control: 0.0.0.0/0 allow
		  do-not-query-localhost: no
		  module-config: "iterator"
		  $2
	CONF
}

servers() {
	mkdir -p "$LAB_DIR/www"
	head -c 3000000 /dev/urandom >"$LAB_DIR/www/file"
	nginx_conf server 8081 "root $LAB_DIR/www;" >"$LAB_DIR/nginx.conf"
	haproxy_conf 8082 'http-request return status 200 content-type text/plain string haproxy' >"$LAB_DIR/haproxy.cfg"
	unbound_conf "$BACKEND" 'local-data: "www.sluice.example. 60 IN A 192.0.2.80"' >"$LAB_DIR/unbound.conf"
	printf 'listener 1883 0.0.0.0\nallow_anonymous true\nuser root\n' >"$LAB_DIR/mosquitto.conf"
	serve worker-a redis.log redis-server --port 6379 --bind 0.0.0.0 --save '' --protected-mode no --dir "$LAB_DIR"
	serve worker-a memcached.log memcached -u root -p 11211
	serve worker-a nginx.log nginx -p "$LAB_DIR" -c "$LAB_DIR/nginx.conf"
	serve worker-a haproxy.log haproxy -f "$LAB_DIR/haproxy.cfg"
	serve worker-a mosquitto.log mosquitto -c "$LAB_DIR/mosquitto.conf"
	# Datagrams are answered from the address that they were sent to, which is not the one of the route back.
	serve worker-a iperf.log iperf3 -s -B "$BACKEND"
	serve worker-a socat.log socat TCP-LISTEN:7000,fork,reuseaddr EXEC:cat
	serve worker-a socat-udp.log socat "UDP-RECVFROM:7001,bind=$BACKEND,fork" EXEC:cat
	serve worker-a unbound.log unbound -d -c "$LAB_DIR/unbound.conf"
}

# Proxies in a pod, whose connections to the service the socket hooks translate.
proxies() {
	nginx_conf proxy 9081 "location / { proxy_pass http://$SERVICE:8081; }" >"$LAB_DIR/nginx-proxy.conf"
	haproxy_conf 9082 'default_backend back' >"$LAB_DIR/haproxy-proxy.cfg"
	printf 'backend back\n  server service %s:8081\n' "$SERVICE" >>"$LAB_DIR/haproxy-proxy.cfg"
	unbound_conf 127.0.0.1@5300 '' >"$LAB_DIR/unbound-proxy.conf"
	printf 'forward-zone:\n  name: "."\n  forward-addr: %s\n' "$SERVICE" >>"$LAB_DIR/unbound-proxy.conf"
	serve pod nginx-proxy.log nginx -p "$LAB_DIR" -c "$LAB_DIR/nginx-proxy.conf"
	serve pod haproxy-proxy.log haproxy -f "$LAB_DIR/haproxy-proxy.cfg"
	serve pod unbound-proxy.log unbound -d -c "$LAB_DIR/unbound-proxy.conf"
}

# ---- Clients: by TO and PORT, as WHO. ----

# From standard input: what nginx serves.
same_file() { cmp - "$LAB_DIR/www/file"; }

# get_PROGRAM ADDRESS:PORT: the file to standard output.
get_curl() { lab_in "$WHO" curl -fsS -m 60 "http://$1/file"; }
get_python() {
	lab_in "$WHO" python3 -c 'import shutil, sys, urllib.request as web
shutil.copyfileobj(web.urlopen(f"http://{sys.argv[1]}/file", timeout=60), sys.stdout.buffer)' "$1"
}
get_node() {
	lab_in "$WHO" node -e 'require("http").get(`http://${process.argv[1]}/file`, answer => answer.pipe(process.stdout))' "$1"
}

ask_redis() {
	local value
	value=$(head -c 30000 /dev/zero | tr '\0' r)
	[[ $(real "$WHO" redis-cli -h "$1" -p "$2" set key "$value") == OK ]] &&
		[[ $(real "$WHO" redis-cli -h "$1" -p "$2" get key) == "$value" ]]
}

ask_memcached() {
	lab_in "$WHO" python3 - "$1" "$2" <<-'PY'
		import socket, sys
		with socket.create_connection((sys.argv[1], int(sys.argv[2])), 60) as connection:
		    lines = connection.makefile("rwb")
		    lines.write(b"set key 0 0 5\r\nvalue\r\nget key\r\n")
		    lines.flush()
		    said = [lines.readline() for _ in range(4)]
		sys.exit(said != [b"STORED\r\n", b"VALUE key 0 5\r\n", b"value\r\n", b"END\r\n"])
	PY
}

ask_nginx() {
	local program
	for program in curl python node; do
		[[ $program != node ]] || command -v node >/dev/null || continue
		"get_$program" "$1:$2" | same_file || return 1
	done
}

ask_haproxy() { [[ $(lab_in "$WHO" curl -fsS -m 60 "http://$1:$2/") == haproxy ]]; }

ask_mosquitto() {
	real "$WHO" mosquitto_pub -h "$1" -p "$2" -r -q 1 -t topic -m hello &&
		[[ $(real "$WHO" mosquitto_sub -h "$1" -p "$2" -t topic -C 1 -W 60) == hello ]]
}

ask_iperf() { real "$WHO" iperf3 -J -c "$1" -p "$2" -n 20M | jq -e '.end.sum_received.bytes > 19000000' >/dev/null; }

ask_iperf-udp() {
	real "$WHO" iperf3 -J -u -b 5M -l 1000 -t 1 -c "$1" -p "$2" |
		jq -e '.end.sum.packets > 10 and .end.sum.lost_percent < 50' >/dev/null
}

ask_socat() { [[ $(echo hello | real "$WHO" socat -t 30 - "TCP:$1:$2") == hello ]]; }
ask_socat-udp() { [[ $(echo hello | real "$WHO" socat -t 5 - "UDP:$1:$2") == hello ]]; }
# Not below test., which unbound answers itself (RFC 6761) however it forwards: so it once gave no answers behind a ClusterIP.
ask_dns() { [[ $(real "$WHO" dig +short +tcp +time=20 -p "$2" "@$1" www.sluice.example) == 192.0.2.80 ]]; }
ask_dns-udp() { [[ $(real "$WHO" dig +short +notcp +time=20 -p "$2" "@$1" www.sluice.example) == 192.0.2.80 ]]; }

# each WAY WHO TO COLUMN: every server by that way; COLUMN of SERVERS is the port.
each() {
	local way=$1 to=$3 column=$4 each
	local -a words
	WHO=$2
	for each in "${SERVERS[@]}"; do
		read -ra words <<<"$each"
		lab_wait 60 "ask_${words[0]}" "$to" "${words[column]}" ||
			die "${words[0]} by $way: $(tail -n 5 "$LAB_DIR/${words[0]%-udp}.log" 2>/dev/null)"
	done
	printf '%s: %d servers\n' "$way" "${#SERVERS[@]}"
}

# outcome NAME: how often.
outcome() { lab_sluice status -o json | jq ".outcomes.$1"; }

ask_proxies() {
	local port
	WHO=pod
	for port in 9081 9082; do
		lab_wait 60 ask_nginx 127.0.0.1 "$port" || die "the proxy at $port: $(tail -n 5 "$LAB_DIR"/*-proxy.log)"
	done
	lab_wait 60 ask_dns-udp 127.0.0.1 5300 || die "unbound as a forwarder: $(cat "$LAB_DIR/unbound-proxy.log")"
	printf 'proxies: nginx, haproxy, unbound\n'
}

find_programs
lab_up real
manifest >"$LAB_MANIFESTS/real.yaml"
servers
lab_offload off
# A bridge's port that receives with GRO hands on sums that are still to be made, which XDP would send out as they are.
nsenter --net="/run/netns/$LAB-net" ethtool -K to-node tx off >/dev/null
lab_agent --xdp off
each sockets pod "$SERVICE" 2
proxies
ask_proxies
each tc client "$NODE" 3
(($(outcome flow_redirect) > 0 && $(outcome flow_xdp) == 0)) || die "tc carried nothing"
lab_stop "$LAB_AGENT" || true
lab_agent --xdp native
each XDP client "$NODE" 3
(($(outcome flow_xdp) > 0)) || die "XDP carried nothing"
