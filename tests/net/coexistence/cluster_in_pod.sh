#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-160: a cluster within a pod (kind, k3d) whose services have the addresses of this cluster's: its own rules translate in the pod's network
# namespace. With --sockets host its pods and its node reach its services, TCP and UDP, and those of this cluster that it does not have; with
# --sockets all this cluster answers in its place, and a port that only it has is refused. Option and checks are the guide's.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

WEB=10.96.0.80 WEB6=fd00:10:96::80 DNS=10.96.0.10 DNS6=fd00:10:96::10 OUTSIDE=203.0.113.80
COUNT=8
GUIDE=$SLUICE_ROOT/docs/guides/pods-with-proxies.md

# inner_pod NAME NUMBER: a pod of the inner cluster, whose node is the pod.
inner_pod() {
	lab_namespace "$1"
	ip -n "$LAB-$1" link add eth0 type veth peer name "inner$2" netns "$LAB-pod"
	ip -n "$LAB-pod" address add "10.245.$2.1/24" dev "inner$2"
	ip -n "$LAB-pod" address add "fd00:10:245:$2::1/64" dev "inner$2" nodad
	ip -n "$LAB-pod" link set "inner$2" up
	ip -n "$LAB-$1" address add "10.245.$2.10/24" dev eth0
	ip -n "$LAB-$1" address add "fd00:10:245:$2::10/64" dev eth0 nodad
	ip -n "$LAB-$1" link set eth0 up
	ip -n "$LAB-$1" route add default via "10.245.$2.1"
	ip -n "$LAB-$1" route add default via "fd00:10:245:$2::1"
}

inner_cluster() {
	inner_pod guest 0
	inner_pod server 1
	lab_in pod bash -c 'cd /proc/sys/net; echo 1 >ipv4/ip_forward; echo 1 >ipv6/conf/all/forwarding'
	inner_services
	mkdir "$LAB_CGROUP/pod/inner"
	lab_start server inner-web.log python3 "$SLUICE_ROOT/scripts/lib/backend.py" inner 8080 5353
	lab_wait 10 lab_ask pod tcp 10.245.1.10 8080 || die "no server of the inner cluster: $(cat "$LAB_DIR/inner-web.log")"
}

# The rules of the inner cluster's proxy: the same ClusterIPs, and one more port.
inner_services() {
	lab_in pod nft -f - <<-NFT
		table inet inner {
			chain services {
				ip daddr $WEB tcp dport { 80, 8443 } dnat ip to 10.245.1.10:8080
				ip daddr $DNS udp dport 53 dnat ip to 10.245.1.10:5353
				ip6 daddr $WEB6 tcp dport { 80, 8443 } dnat ip6 to [fd00:10:245:1::10]:8080
				ip6 daddr $DNS6 udp dport 53 dnat ip6 to [fd00:10:245:1::10]:5353
			}
			chain pre { type nat hook prerouting priority dstnat; jump services; }
			chain out { type nat hook output priority -100; jump services; }
			chain post {
				type nat hook postrouting priority srcnat
				oifname eth0 ip saddr 10.245.0.0/16 masquerade
				oifname eth0 ip6 saddr fd00:10:245::/48 masquerade
			}
		}
	NFT
}

# asked WHO ARGUMENT...: who answers, or the error; WHO: pod (the inner node) or guest (its pod), whose cgroup is below the pod's.
asked() {
	local who=$1 said
	shift
	# shellcheck disable=SC2016  # expanded inside
	said=$(bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec nsenter --net="$@"' asked "$LAB_CGROUP/pod/inner" "/run/netns/$LAB-$who" \
		python3 "$SLUICE_ROOT/scripts/lib/ask.py" "$@" --count "$COUNT" --json) || true
	jq -r '(.answers | keys) + (.failed | keys) | join(" ")' <<<"$said"
}

# hears WHO WANTED ARGUMENT...: WANTED is a pattern of all answers.
hears() {
	local said
	said=$(asked "$1" "${@:3}")
	[[ $said =~ ^($2)$ ]] || die "$SCOPE: $1 asks ${*:3}: '$said', not '$2'"
	printf -- '--sockets %s: %s asks %s: %s\n' "$SCOPE" "$1" "${*:3}" "$said"
}

# all_hear SERVICE ONLY_INNER: what the inner pod and the inner node hear of services that both clusters have, and of the inner
# cluster's other port.
all_hear() {
	local who
	for who in guest pod; do
		hears "$who" "$1" tcp "$WEB" 80
		hears "$who" "$1" tcp "$WEB6" 80
		hears "$who" "$1" udp "$DNS" 53
		hears "$who" "$1" udp "$DNS6" 53
		hears "$who" "$2" tcp "$WEB" 8443
	done
}

trap 'ip netns delete "$LAB-server" 2>/dev/null || true; lab_down' EXIT

lab_up nested
lab_backends
inner_cluster
OUTER='(web-[a-cpod]+ ?)+'

SCOPE=all
lab_agent --xdp off --sockets all --pod-devices pod
all_hear "$OUTER" "Connection refused"
lab_stop "$LAB_AGENT" || true

SCOPE=host
lab_agent --xdp off "$(sed -n 's/^ *value: \(--sockets=.*\)$/\1/p' "$GUIDE")" --pod-devices pod
on_nodes() { lab_sluice "$@"; }
eval "$(grep '^on_nodes status |' "$GUIDE")" || die "the guide's checks fail: $(lab_sluice status)"
all_hear inner inner
for who in guest pod; do hears "$who" "$OUTER" tcp "$OUTSIDE" 80; done
