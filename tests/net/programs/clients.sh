# SPDX-License-Identifier: Apache-2.0
# The clients of tests/net/packets/real_programs.sh: ask_SERVER ADDRESS PORT, run as WHO. Sourced by it.
# shellcheck shell=bash
# shellcheck disable=SC2016  # other languages' variables

# at ADDRESS PORT: as one word, in which IPv6's addresses stand in brackets.
at() { [[ $1 == *:* ]] && printf '[%s]:%s\n' "$@" || printf '%s:%s\n' "$@"; }

# From standard input: what nginx serves.
same_file() { cmp - "$LAB_DIR/www/file"; }

# get_PROGRAM ADDRESS:PORT: writes the file to standard output.
get_curl() { lab_in "$WHO" curl -fsS -m 60 "http://$1/file"; }
get_python() {
	lab_in "$WHO" python3 -c 'import shutil, sys, urllib.request as web
shutil.copyfileobj(web.urlopen(f"http://{sys.argv[1]}/file", timeout=60), sys.stdout.buffer)' "$1"
}
get_node() {
	real "$WHO" node -e 'require("http").get(`http://${process.argv[1]}/file`, answer => answer.pipe(process.stdout))' "$1"
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

get_java() { real "$WHO" java -cp "$REAL_PROGRAMS/opt" FileByHttp get "http://$1/file"; }
get_go() { real "$WHO" talk http "http://$1/file"; }
get_rust() { real "$WHO" files get "http://$1/file"; }

# ask_file ADDRESS:PORT PROGRAM...: gets the file by each of these programs.
ask_file() {
	local program
	for program in "${@:2}"; do "get_$program" "$1" | same_file || return 1; done
}

ask_nginx() { ask_file "$(at "$1" "$2")" curl python node java go rust; }
ask_java() { ask_file "$(at "$1" "$2")" curl java; }
ask_go() { ask_file "$(at "$1" "$2")" curl go; }
ask_rust() { ask_file "$(at "$1" "$2")" curl rust; }
ask_node() { ask_file "$(at "$1" "$2")" curl node; }
ask_grpc() { real "$WHO" talk grpc "$(at "$1" "$2")" 0; }
# 3 MB in datagrams, which quic-go sends as many at a time as the kernel takes.
ask_quic() { real "$WHO" talk http3 "$(at "$1" "$2")" | same_file; }

# Sends the file to the server and reads it back, as text.
ask_postgres() {
	base64 -w 0 "$LAB_DIR/www/file" >"$LAB_DIR/text"
	{
		printf "create temporary table long (words text); insert into long values ('"
		cat "$LAB_DIR/text"
		printf "'); select words from long;\n"
	} | real "$WHO" psql -h "$1" -p "$2" -U postgres -Atq | tr -d '\n' | cmp - "$LAB_DIR/text"
}

ask_uring() { real "$WHO" uring stream "$1" "$2"; }
ask_zerocopy() {
	local how
	for how in stream sendfile; do
		lab_in "$WHO" python3 "$SLUICE_ROOT/tests/net/programs/zerocopy.py" "$how" "$1" "$2" "$LAB_DIR/www/file" || return 1
	done
}

ask_haproxy() { [[ $(lab_in "$WHO" curl -fsS -m 60 "http://$(at "$1" "$2")/") == haproxy ]]; }

ask_mosquitto() {
	real "$WHO" mosquitto_pub -h "$1" -p "$2" -r -q 1 -t topic -m hello &&
		[[ $(real "$WHO" mosquitto_sub -h "$1" -p "$2" -t topic -C 1 -W 60) == hello ]]
}

# iperf3's server does not count data that is in flight when the client has sent all.
ask_iperf() { real "$WHO" iperf3 -J -c "$1" -p "$2" -n 20M | jq -e '.end.sum_sent.bytes > 19000000 and .end.sum_received.bytes > 1000000' >/dev/null; }

ask_iperf-udp() {
	real "$WHO" iperf3 -J -u -b 5M -l 1000 -t 1 -c "$1" -p "$2" |
		jq -e '.end.sum.packets > 10 and .end.sum.lost_percent < 50' >/dev/null
}

ask_socat() { [[ $(echo hello | real "$WHO" socat -t 30 - "TCP:$(at "$1" "$2")") == hello ]]; }
ask_socat-udp() {
	[[ $(echo hello | real "$WHO" socat -t 5 - "UDP:$(at "$1" "$2")") == hello ]] && real "$WHO" uring datagram "$1" "$2"
}

# dig_for ADDRESS PORT OPTION...: resolves the name. It must not be below test., for which unbound replies itself (RFC 6761)
# whatever its forwarding says; with such a name it gave no answers behind a ClusterIP.
dig_for() { [[ $(real "$WHO" dig +short +time=20 "${@:3}" -p "$2" "@$1" www.sluice.example) == 192.0.2.80 ]]; }
ask_dns() { dig_for "$1" "$2" +tcp; }
ask_dnsmasq() { dig_for "$1" "$2" +tcp; }
ask_dnsmasq-udp() { dig_for "$1" "$2" +notcp; }
# Node resolves names by c-ares.
ask_dns-udp() {
	dig_for "$1" "$2" +notcp && [[ 192.0.2.80 == $(real "$WHO" node -e 'const asked = new (require("dns").Resolver)({ timeout: 20000 });
		asked.setServers([process.argv[1]]); asked.resolve4("www.sluice.example", (error, found) => console.log(error || found[0]))' "$(at "$1" "$2")") ]]
}

# resolve ADDRESS: resolves by the libraries that use resolv.conf: glibc, which connects its sockets, and musl, which does
# not.
resolve() {
	local program
	echo "nameserver $1" >"$LAB_DIR/resolv.conf"
	for program in 'getent ahostsv4' resolve; do
		[[ $(real "$WHO" unshare --mount bash -c 'mount --bind "$1" /etc/resolv.conf && $2 www.sluice.example' \
			resolve "$LAB_DIR/resolv.conf" "$program" | awk 'NR == 1 { print $1 }') == 192.0.2.80 ]] || die "$program asks $1 in vain"
	done
}
