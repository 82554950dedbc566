# SPDX-License-Identifier: Apache-2.0
# The servers of tests/net/packets/real_programs.sh, in worker-a, and the proxies, in pod. Sourced by it.
# shellcheck shell=bash

nginx_conf() {
	cat <<-CONF
		daemon off; pid $LAB_DIR/$1.pid; error_log stderr; user root; worker_processes 1; events {}
		http { access_log off; client_body_temp_path $LAB_DIR/$1.t1; proxy_temp_path $LAB_DIR/$1.t2; fastcgi_temp_path $LAB_DIR/$1.t3;
		  uwsgi_temp_path $LAB_DIR/$1.t4; scgi_temp_path $LAB_DIR/$1.t5; server { listen $2; listen [::]:$2; $3 } }
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
		  bind :::$1 v4v6
		  $2
	CONF
}

# unbound_conf INTERFACE LINE...
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
		  access-control: ::/0 allow
		  do-not-query-localhost: no
		  module-config: "iterator"
	CONF
	printf '  %s\n' "${@:2}"
}

servers() {
	mkdir -p "$LAB_DIR/www"
	head -c 3000000 /dev/urandom >"$LAB_DIR/www/file"
	echo small >"$LAB_DIR/www/small"
	nginx_conf server 8081 "root $LAB_DIR/www;" >"$LAB_DIR/nginx.conf"
	haproxy_conf 8082 'http-request return status 200 content-type text/plain string haproxy' >"$LAB_DIR/haproxy.cfg"
	unbound_conf "$BACKEND" "interface: $BACKEND6" 'local-data: "www.sluice.example. 60 IN A 192.0.2.80"' >"$LAB_DIR/unbound.conf"
	printf 'listener 1883\nallow_anonymous true\nuser root\n' >"$LAB_DIR/mosquitto.conf"
	serve worker-a redis.log redis-server --port 6379 --bind 0.0.0.0 :: --save '' --protected-mode no --dir "$LAB_DIR"
	serve worker-a memcached.log memcached -u root -c 12000 -p 11211
	serve worker-a nginx.log nginx -p "$LAB_DIR" -c "$LAB_DIR/nginx.conf"
	nginx_conf other 8081 "root $LAB_DIR/www;" >"$LAB_DIR/nginx-other.conf"
	serve worker-b nginx-other.log nginx -p "$LAB_DIR" -c "$LAB_DIR/nginx-other.conf"
	serve worker-a haproxy.log haproxy -f "$LAB_DIR/haproxy.cfg"
	serve worker-a mosquitto.log mosquitto -c "$LAB_DIR/mosquitto.conf"
	# Bind them to this address, so that datagrams are answered from the address that they were sent to, not from that of the
	# route back.
	serve worker-a iperf.log iperf3 -s -B "$BACKEND"
	serve worker-a iperf.log iperf3 -s -B "$BACKEND6"
	serve worker-a socat.log socat TCP6-LISTEN:7000,ipv6only=0,fork,reuseaddr EXEC:cat
	serve worker-a socat-udp.log socat "UDP4-RECVFROM:7001,bind=$BACKEND,fork" EXEC:cat
	serve worker-a socat-udp.log socat "UDP6-RECVFROM:7001,bind=[$BACKEND6],fork" EXEC:cat
	serve worker-a unbound.log unbound -d -c "$LAB_DIR/unbound.conf"
	serve worker-a dnsmasq.log dnsmasq --keep-in-foreground --no-resolv --no-hosts --user=root --pid-file= --port=5354 \
		--listen-address="$BACKEND" --listen-address="$BACKEND6" --bind-interfaces --address=/www.sluice.example/192.0.2.80
	own_servers
	postgres
}

# own_servers: our own servers, which serve the file by HTTP, or echo.
own_servers() {
	serve worker-a java.log java -cp "$REAL_PROGRAMS/opt" FileByHttp serve 8083 "$LAB_DIR/www/file"
	serve worker-a go.log talk serve "$LAB_DIR/www/file"
	serve worker-a rust.log files serve 8086 "$LAB_DIR/www/file"
	# shellcheck disable=SC2016  # JavaScript's
	serve worker-a node.log node -e 'require("http").createServer((_, answer) =>
		require("fs").createReadStream(process.argv[1]).pipe(answer)).listen(8087, "::")' "$LAB_DIR/www/file"
	serve worker-a uring.log uring serve 7002
	serve worker-a zerocopy.log python3 "$SLUICE_ROOT/tests/net/programs/zerocopy.py" serve 7003
}

# nobody COMMAND...: PostgreSQL refuses to run as root. This capability gives access to files in root's own directories.
nobody() { printf '%s\n' setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override "$@"; }

postgres() {
	local data=$LAB_DIR/postgres
	local -a command
	mkdir "$data"
	chown 65534:65534 "$data"
	mapfile -t command < <(nobody initdb --no-sync --auth=trust --username=postgres --pgdata="$data")
	real worker-a "${command[@]}" >"$LAB_DIR/initdb.log" 2>&1 || die "initdb: $(tail -n 3 "$LAB_DIR/initdb.log")"
	printf 'host all all %s trust\n' 0.0.0.0/0 ::/0 >>"$data/pg_hba.conf"
	mapfile -t command < <(nobody postgres -D "$data" -c listen_addresses=* -c unix_socket_directories= -c fsync=off)
	serve worker-a postgres.log "${command[@]}"
}

# proxies NAME SERVICE HTTP DNS: proxies in a pod, whose connections to the service the socket hooks translate: for HTTP at the port HTTP and
# the next, for DNS at DNS and the next.
proxies() {
	local name=$1 http=$3 dns=$4 back
	back=$(at "$2" 8081)
	nginx_conf "proxy-$name" "$http" "location / { proxy_pass http://$back; }" >"$LAB_DIR/nginx-$name.conf"
	haproxy_conf "$((http + 1))" 'default_backend back' >"$LAB_DIR/haproxy-$name.cfg"
	printf 'backend back\n  server service %s\n' "$back" >>"$LAB_DIR/haproxy-$name.cfg"
	unbound_conf "127.0.0.1@$dns" >"$LAB_DIR/unbound-$name.conf"
	printf 'forward-zone:\n  name: "."\n  forward-addr: %s\n' "$2" >>"$LAB_DIR/unbound-$name.conf"
	serve pod "nginx-$name-proxy.log" nginx -p "$LAB_DIR" -c "$LAB_DIR/nginx-$name.conf"
	serve pod "haproxy-$name-proxy.log" haproxy -f "$LAB_DIR/haproxy-$name.cfg"
	serve pod "unbound-$name-proxy.log" unbound -d -c "$LAB_DIR/unbound-$name.conf"
	serve pod "dnsmasq-$name-proxy.log" dnsmasq --keep-in-foreground --no-resolv --no-hosts --user=root --pid-file= --port="$((dns + 1))" \
		--listen-address=127.0.0.1 --bind-interfaces --cache-size=0 --server="$2"
}
