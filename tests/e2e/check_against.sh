#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-84, REL-165: `sluice check --against kube-proxy` with the real kube-proxy, in its modes nftables and iptables (iptables-nft of this
# machine, --long, and of Debian's newest release, and iptables-legacy): exit code 0 if both are the same, 1 with one line for each planted difference, 2 without kube-proxy or
# API. `drain` waits while rules lack a service.
# SLUICE_RECORD=DIR saves the kernel's dumps of the rules in DIR, as in tests/corpus/kube_proxy_rules.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/scenario.sh"

MODES=${SLUICE_MODES:-nftables iptables-newest iptables-legacy${SLUICE_LONG:+ iptables nftables-newest}}

# service NAME NUMBER FIELDS [PROTOCOL]: a service of type LoadBalancer with a node port; FIELDS: more fields of the spec.
service() {
	kube apply <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default}
		spec: {type: LoadBalancer, clusterIP: 10.96.0.$2, clusterIPs: [10.96.0.$2, "fd00:10:96::$2"], ipFamilies: [IPv4, IPv6],
		  ipFamilyPolicy: RequireDualStack, ports: [{name: port, protocol: ${4:-TCP}, port: 80, targetPort: 8080, nodePort: 300$2}], $3}
	YAML
	kube patch "Service/$1" --status "{\"status\": {\"loadBalancer\": {\"ingress\": [{\"ip\": \"203.0.113.$2\"}, {\"ip\": \"2001:db8:113::$2\"}]}}}"
}

# with_slice NAME ENDPOINTS: writes the service's only slice by hand.
with_slice() {
	kube apply <<-YAML
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1, namespace: default, labels: {kubernetes.io/service-name: $1}}
		addressType: IPv4
		ports: [{name: port, port: 8080}]
		endpoints: $2
	YAML
}

services() {
	local web='selector: {app: web}'
	service web 80 "$web"
	service here 81 "$web, externalTrafficPolicy: Local"
	service inside 82 "$web, internalTrafficPolicy: Local"
	service sticky 83 "$web, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}},
		  externalIPs: [192.0.2.83, '2001:db8:2::83']"
	service ranges 84 "$web, loadBalancerSourceRanges: [10.0.0.0/24, 'fd00:10::/64']"
	service dns 53 "$web" UDP
	service none 85 'selector: {app: nobody}'
	service away 86 'externalTrafficPolicy: Local, internalTrafficPolicy: Local'
	with_slice away '[{addresses: [10.244.2.10], nodeName: worker-a}]'
}

# kube_proxy_comes MODE
kube_proxy_comes() { cluster_kube_proxy "$(proxy_mode "$1")" "$(cluster_iptables "$1")"; }

kube_proxy_goes() {
	lab_stop "$KUBE_PROXY" || true
	lab_sluice cleanup --kube-proxy --force >"$LAB_DIR/cleanup" || die "kube-proxy's rules are left: $(cat "$LAB_DIR/cleanup")"
}

# record MODE: saves the kernel's dumps of all rules of MODE.
record() {
	local family table
	for family in ip ip6; do
		case $1 in
		nftables) recorded nf "$family" kube-proxy "$1-$family" ;;
		iptables) recorded nf "$family" nat filter "$1-$family" ;;
		iptables-legacy) for table in nat filter; do recorded legacy "$family" "$table" "$1-$family-$table"; done ;;
		esac
	done
}

# recorded ARGUMENT... FILE: saves one dump.
recorded() { lab_in node python3 "$E2E/record_rules.py" "${@:1:$#-1}" "$SLUICE_RECORD/${*: -1}"; }

# against [OPTION...]: runs the check; its output goes to $LAB_DIR/against, its exit code to $CODE.
against() {
	CODE=0
	lab_in node "$SLUICE" check --against kube-proxy --kubeconfig "$CLUSTER/agent.conf" --node node --devices none "$@" \
		>"$LAB_DIR/against" 2>&1 || CODE=$?
}

# Needs up to a minute: kube-proxy reports healthy before its rules are written, and slices follow their Services.
finds_same() {
	against
	((CODE == 0))
}

# is_same WHEN: waits until the check finds no difference.
is_same() {
	lab_wait 60 finds_same || die "$1: wanted the same, found ($CODE): $(<"$LAB_DIR/against")"
	grep -q '^The same: [0-9]* frontends' "$LAB_DIR/against" || die "$1: $(<"$LAB_DIR/against")"
	printf '%s: %s\n' "$1" "$(tail -n 1 "$LAB_DIR/against")"
}

# finds_differences LINES: whether the check finds exactly these differences.
finds_differences() {
	against -o json
	((CODE == 1)) || return 1
	jq -r '.differences[] | "\(.kind) \(.service) \(.protocol) \(.address) \(.port)"' "$LAB_DIR/against" | LC_ALL=C sort >"$LAB_DIR/found"
	[[ $(<"$LAB_DIR/found") == "$1" ]]
}

# differs WHEN LINES: waits until the check finds exactly LINES: "KIND SERVICE PROTOCOL ADDRESS PORT" of each difference,
# sorted.
differs() {
	lab_wait 60 finds_differences "$2" ||
		die "$1, $CODE: $(diff <(printf '%s\n' "$2") "$LAB_DIR/found"): $(<"$LAB_DIR/against")"
	printf '%s: %d differences\n' "$1" "$(wc -l <"$LAB_DIR/found")"
}

# is_incomparable WHEN WHY COMMAND...: checks that COMMAND exits with 2 and prints WHY.
is_incomparable() {
	local code=0
	"${@:3}" >"$LAB_DIR/against" 2>&1 || code=$?
	((code == 2)) || die "$1: wanted 2, found $code: $(<"$LAB_DIR/against")"
	grep -q "$2" "$LAB_DIR/against" || die "$1: $(<"$LAB_DIR/against")"
	printf '%s: %s\n' "$1" "$(tail -n 1 "$LAB_DIR/against")"
}

# frontends KIND NAME NUMBER [PROTOCOL]: a line for each frontend of a service, in both families.
frontends() {
	local address
	for address in "10.96.0.$3 80" "fd00:10:96::$3 80" "203.0.113.$3 80" "2001:db8:113::$3 80" "* 300$3" "* 300$3"; do
		printf '%s default/%s:port %s %s\n' "$1" "$2" "${4:-TCP}" "$address"
	done
}

# planted: the differences that change() causes. The only endpoint of `away`, which is IPv4 only, is removed.
planted() {
	{
		frontends only-kube-proxy dns 53 UDP
		frontends only-sluice late 87
		frontends affinity web 80
		printf 'source-ranges default/ranges:port TCP %s 80\n' 203.0.113.84 2001:db8:113::84
		frontends endpoints here 81 | grep -v ' \(10.96\|fd00\)'
		printf 'no-endpoints default/away:port TCP 10.96.0.86 80\n'
		printf 'endpoints-inside default/away:port TCP %s\n' '203.0.113.86 80' '* 30086'
		printf 'no-endpoints default/away:port TCP %s\n' '203.0.113.86 80' '* 30086'
	} | LC_ALL=C sort
}

# change: changes services while kube-proxy is stopped, so that its rules stay as they are.
change() {
	local web='selector: {app: web}'
	kube delete Service/default/dns
	service late 87 "$web"
	service web 80 "$web, sessionAffinity: ClientIP"
	service ranges 84 "$web"
	service here 81 "$web"
	kube delete EndpointSlice/default/away
}

# Deletes and recreates `web`: after affinity is turned off, the API server keeps its settings and then rejects them.
change_back() {
	kube delete Service/default/late
	kube delete Service/default/web
	services
}

without_rights() {
	lab_in node setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$SLUICE" check --against kube-proxy \
		--manifests "$SLUICE_ROOT/k8s/examples" --node node --devices none
}

without_kube_proxy() {
	lab_in node "$SLUICE" check --against kube-proxy --kubeconfig "$CLUSTER/agent.conf" --node node --devices none
}

without_manifests() {
	lab_in node "$SLUICE" check --against kube-proxy --manifests "$LAB_DIR/nowhere" --node node --devices none
}

# without_api: nothing listens at the API server's address in the kubeconfig. Takes the half minute that the check waits.
without_api() {
	lab_in node "$SLUICE" check --against kube-proxy --kubeconfig "$LAB_DIR/nowhere.conf" --node node --devices none
}

# in_mode MODE: all comparisons with kube-proxy in that mode.
in_mode() {
	kube_proxy_comes "$1"
	is_same "$1"
	[[ -z ${SLUICE_RECORD:-} ]] || record "$1"
	lab_stop "$KUBE_PROXY" || true
	change
	differs "$1, changed" "$(planted)"
	change_back
	is_same "$1, changed back"
	is_incomparable "$1, without rights" 'cannot read kube-proxy'"'"'s rules' without_rights
	is_incomparable "$1, without manifests" 'nowhere' without_manifests
	[[ $1 != "${MODES%% *}" ]] || is_incomparable "$1, without an API server" 'waited 30 s for .*services' without_api
	kube_proxy_goes
	is_incomparable "$1, without kube-proxy" "no rules of kube-proxy are on this node" without_kube_proxy
}

# drains: while kube-proxy's rules lack a service a drain waits; once they have it the drain goes on, and without kube-proxy
# it is refused.
drains() {
	# shellcheck disable=SC2119  # no options
	cluster_agent
	kube_proxy_comes nftables
	is_same "beside the agent"
	lab_stop "$KUBE_PROXY" || true
	lab_in node nft delete element ip kube-proxy service-ips '{ 10.96.0.80 . tcp . 80 }'
	! lab_sluice drain >"$LAB_DIR/drain" 2>&1 || die "drains without rules for web: $(<"$LAB_DIR/drain")"
	grep -q 'default/web:port (TCP 10.96.0.80:80)' "$LAB_DIR/drain" || die "the refusal: $(<"$LAB_DIR/drain")"
	lacks '^Draining' lab_sluice status || die "a drain that was refused drains"
	printf 'refused: %s\n' "$(<"$LAB_DIR/drain")"
	lab_start node drain.log "$SLUICE" drain --pins "$LAB_PINS" --deadline 10
	# It sleeps between two comparisons.
	lab_wait 30 grep -q nanosleep "/proc/$LAB_STARTED/wchan" || die "the drain does not wait: $(<"$LAB_DIR/drain.log")"
	lacks '^Draining' lab_sluice status || die "drains before kube-proxy serves web"
	kube_proxy_comes nftables
	lab_wait 30 prints '^Draining' lab_sluice status || die "does not drain: $(<"$LAB_DIR/drain.log")"
	lab_sluice drain --cancel
	kube_proxy_goes
	! lab_sluice drain >"$LAB_DIR/drain" 2>&1 || die "drains without kube-proxy: $(<"$LAB_DIR/drain")"
	grep -q 'no rules of kube-proxy are on this node, so new connections would be lost' "$LAB_DIR/drain" ||
		die "the refusal without kube-proxy: $(<"$LAB_DIR/drain")"
	printf 'drained once every service had rules\n'
}

cluster_up against
kubeconfig "$LAB_DIR/nowhere.conf" https://127.0.0.1:6444 "certificate admin"
cluster_pods
services
for MODE in $MODES; do
	in_mode "$MODE"
done
drains
