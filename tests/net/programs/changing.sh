# SPDX-License-Identifier: Apache-2.0
# Backends that change under real programs' traffic, for tests/net/packets/real_programs.sh: a service of nginx in worker-a
# and worker-b, and of PostgreSQL in worker-a, whose endpoints are added and removed. The backends keep running, so no
# request may fail. Sourced by it.
# shellcheck shell=bash

MOVING=10.96.0.71 MOVING6=fd00:10:96::71

# endpoints ADDRESS...
endpoints() {
	local address all=''
	for address; do all+="${all:+, }{addresses: [\"$address\"]}"; done
	printf '[%s]\n' "$all"
}

# moving WORKER...: these are its endpoints, a or b.
moving() {
	local worker
	local -a ipv4=() ipv6=()
	for worker; do
		[[ $worker == a ]] && ipv4+=("$BACKEND") ipv6+=("$BACKEND6") || ipv4+=("$OTHER") ipv6+=("$OTHER6")
	done
	cat >"$LAB_DIR/moving.yaml" <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: moving, namespace: default}
		spec:
		  type: NodePort
		  clusterIP: $MOVING
		  clusterIPs: [$MOVING, "$MOVING6"]
		  ipFamilies: [IPv4, IPv6]
		  ports: [{name: http, port: 8081, nodePort: 31020}, {name: sql, port: 5432, nodePort: 31021}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: moving-1, namespace: default, labels: {kubernetes.io/service-name: moving}}
		addressType: IPv4
		endpoints: $(endpoints "${ipv4[@]}")
		ports: [{name: http, port: 8081}, {name: sql, port: 5432}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: moving-2, namespace: default, labels: {kubernetes.io/service-name: moving}}
		addressType: IPv6
		endpoints: $(endpoints "${ipv6[@]}")
		ports: [{name: http, port: 8081}, {name: sql, port: 5432}]
	YAML
	mv "$LAB_DIR/moving.yaml" "$LAB_MANIFESTS/moving.yaml"
}

# begin WHO NAME COMMAND...: starts a client; adds its pid to CLIENTS.
begin() {
	serve "$1" "changing-$2.log" "${@:3}"
	CLIENTS+=("$LAB_STARTED")
}

# changing WAY WHO TO COLUMN: requests on new and on kept connections, and one PostgreSQL session whose endpoint is removed.
changing() {
	local address=$3 http=31020 sql=31021 pid each url
	local -a CLIENTS=()
	if [[ $2 == pod ]]; then
		http=8081 sql=5432 address=$MOVING
		[[ $3 != *:* ]] || address=$MOVING6
	fi
	url=http://$(at "$address" "$http")/small
	moving a
	lab_wait 10 real "$2" psql -h "$address" -p "$sql" -U postgres -c 'select 1' || die "the changing service by $1 is not there"
	rm -f "$LAB_DIR"/changing-*.log
	begin "$2" sql psql -h "$address" -p "$sql" -U postgres -Atq -c "select 'begun'" -c 'select count(pg_sleep(0.2)) from generate_series(1, 50)'
	lab_wait 60 grep -q begun "$LAB_DIR/changing-sql.log" || die "PostgreSQL's session by $1: $(<"$LAB_DIR/changing-sql.log")"
	begin "$2" kept hey -z 10s -c 8 "$url"
	begin "$2" new hey -z 10s -c 8 -disable-keepalive "$url"
	for _ in {1..8}; do
		for each in "a b" b "b a" a; do
			# shellcheck disable=SC2086  # words
			moving $each
			sleep 0.3
		done
	done
	moving b
	for pid in "${CLIENTS[@]}"; do wait "$pid" || die "changing backends by $1: $(tail -n 5 "$LAB_DIR"/changing-*.log)"; done
	[[ $(<"$LAB_DIR/changing-sql.log") == $'begun\n50' ]] || die "PostgreSQL's session by $1: $(<"$LAB_DIR/changing-sql.log")"
	for each in kept new; do
		grep -q '\[200\]' "$LAB_DIR/changing-$each.log" && ! grep -Eq 'Error distribution|\[[1345]..\].*responses' "$LAB_DIR/changing-$each.log" ||
			die "requests while backends changed, by $1, on $each connections: $(<"$LAB_DIR/changing-$each.log")"
	done
	printf '%s: %s answers while backends changed\n' "$1" \
		"$(sed -n 's/.*\[200\][^0-9]*\([0-9]*\) responses.*/\1/p' "$LAB_DIR"/changing-{kept,new}.log | awk '{ sum += $1 } END { print sum }')"
}
