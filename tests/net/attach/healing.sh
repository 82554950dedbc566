#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-19, REL-68: other programs change a running agent's devices, hooks and pins. Devices are added, renamed, set down and
# up, and removed; links are detached and pins removed; other owners' programs are attached before and after ours. Each time
# service recovers, the restored hooks are counted, and the other owners' programs are reported. With SLUICE_WITHOUT=tcx the
# same for clsact.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

WEB=10.96.0.80 WEB6=fd00:10:96::80
NODE=10.0.0.10 NODE6=fd00:10::10 NODE_PORT=30080

asks() { lab_ask "$1" tcp "$2" "$3" --count 4 --timeout 1; }

# served WHEN WHO...: checks that each client gets replies from the service's addresses of both families, within 20 seconds.
served() {
	local who port address
	for who in "${@:2}"; do
		port=80 addresses=("$WEB" "$WEB6")
		[[ $who != client ]] || port=$NODE_PORT addresses=("$NODE" "$NODE6")
		for address in "${addresses[@]}"; do
			lab_wait 20 asks "$who" "$address" "$port" || {
				tail -n 15 "$LAB_DIR/agent.log"
				die "$1: $who is not answered at $address port $port"
			}
		done
	done
	printf '%s: served\n' "$1"
}

# Guests are in no cgroup that is served: only their devices' hooks serve them. All clients, and those that the socket hooks
# do not serve:
everybody=(client guest pod node)

restored() { lab_in node curl -sS -m 5 http://127.0.0.1:10249/metrics | awk '/^sluice_hooks_restored_total[{ ]/ { sum += $NF } END { print sum + 0 }'; }
rose() { (($(restored) > $1)); }
status() { lab_sluice status -o json | jq -r ".$1"; }
says() { [[ $(status "$1") == *"$2"* ]]; }
says_not() { [[ $(status "$1") != *"$2"* ]]; }
links() { find "$LAB_PINS" -path '*/links/*' -type f | sort; }

# shows WHAT FIELD WORDS: checks that status shows WORDS within ten seconds.
shows() { lab_wait 10 says "$2" "$3" || die "$1: $2 does not say '$3': $(status "$2")"; }

milliseconds() { date +%s%3N; }

# healed WHAT COMMAND...: checks that the effect of COMMAND is undone, and counted; with --long, when the machine is
# otherwise idle, three times in five within a second of COMMAND, as seen in the metrics.
healed() {
	local before begin took soon=0 round rounds=${SLUICE_LONG:+5}
	for ((round = 0; round < ${rounds:-1}; round++)); do
		before=$(restored)
		"${@:2}"
		begin=$(milliseconds)
		lab_wait 10 rose "$before" || { tail -n 15 "$LAB_DIR/agent.log" && die "$1: nothing was counted as brought back"; }
		took=$(($(milliseconds) - begin))
		printf '%s: brought back and counted after %d ms\n' "$1" "$took"
		soon=$((soon + (took <= 1000)))
	done
	[[ -z ${SLUICE_LONG:-} ]] || ((soon >= 3)) || die "REL-19: $1: back within a second only $soon times of 5"
	served "$1" "${everybody[@]}"
}

# ---- Devices. ----

# pod_routes DEVICE NUMBER: adds a CNI's routes and neighbours, which the kernel removes when the device is set down.
pod_routes() {
	local own="02:00:00:00:$2:02"
	ip -n "$LAB-node" route replace "10.244.1.$2/32" dev "$1"
	ip -n "$LAB-node" route replace "fd00:10:244:1::$2/128" dev "$1"
	ip -n "$LAB-node" neighbour replace "10.244.1.$2" lladdr "$own" dev "$1" nud permanent
	ip -n "$LAB-node" neighbour replace "fd00:10:244:1::$2" lladdr "$own" dev "$1" nud permanent
}

# node_routes: restores the routes that the kernel removes when the node's eth0 is set down.
node_routes() {
	local who pods number
	ip -n "$LAB-node" address replace fd00:10::10/64 dev eth0 nodad
	ip -n "$LAB-node" route replace default via 10.0.0.1
	ip -n "$LAB-node" route replace default via fd00:10::1
	for who in "${LAB_WORKERS[@]}"; do
		pods=$(lab_pod_network "$who") number=$(lab_number "$who")
		ip -n "$LAB-node" route replace "10.244.$pods.0/24" via "10.0.0.$number"
		ip -n "$LAB-node" route replace "fd00:10:244:$pods::/64" via "fd00:10::$number"
	done
}

flap() {
	ip -n "$LAB-node" link set "$1" down
	ip -n "$LAB-node" link set "$1" up
}

devices() {
	local round who
	lab_guest
	shows "a new pod" packets "2 pods"
	served "a pod that came" guest client
	for round in 1 2 3; do flap pod1 && pod_routes pod1 11; done
	served "a pod's device that flaps" guest
	ip -n "$LAB-node" link set pod1 down
	ip -n "$LAB-node" link set pod1 name pod7
	ip -n "$LAB-node" link set pod7 up
	pod_routes pod7 11
	served "a pod's device that is renamed" guest
	ip -n "$LAB-node" link delete pod7
	shows "a pod that went" packets "1 pod"
	lab_pod guest pod1 11
	shows "a pod that came again" packets "2 pods"
	served "a pod's device of a name that was there before" guest
	for round in 1 2 3; do flap eth0 && node_routes; done
	served "the uplink flaps" "${everybody[@]}"
	ip -n "$LAB-node" link delete eth0
	lab_attach node
	node_routes
	for who in client "${LAB_WORKERS[@]}"; do ip -n "$LAB-$who" neighbour flush dev eth0; done
	served "the uplink is another one" "${everybody[@]}"
}

# ---- Hooks and pins. ----

# detach PIN: detaches a link as bpftool does; a clsact filter has no link.
detach() { bpftool link detach pinned "$1"; }
detach_all() {
	local pin
	for pin in $(links); do ! grep -q "$1" <<<"${pin##*/}" || detach "$pin"; done
}
unpin() {
	local pin
	for pin in $(links); do ! grep -q "$1" <<<"${pin##*/}" || rm "$pin"; done
}
# forget: removes the directory with all pins, which frees the links.
forget() { rm -r "$LAB_PINS"; }
unpin_map() { rm "$(find "$LAB_PINS" -path "*/maps/$1")"; }
remove_clsact() { lab_in node tc qdisc delete dev "$1" clsact; }
# replace_filter DEVICE: replaces our filter by another owner's at its handle; after the first time ours has a later handle.
replace_filter() {
	local handle
	handle=$(lab_in node tc filter show dev "$1" ingress | grep -o 'handle [^ ]* lb_tc_in' | cut -d ' ' -f 2)
	lab_in node tc filter replace dev "$1" ingress prio 1 handle "$handle" bpf bytecode '1,6 0 0 4294967295,'
	REPLACED+=("$handle")
}
remove_replaced() {
	local handle
	for handle in "${REPLACED[@]}"; do lab_in node tc filter delete dev "$1" ingress prio 1 handle "$handle" bpf; done
}

# index DEVICE: the interface index, with which the names of the device's pins end.
index() { ip -n "$LAB-node" -j link show dev "$1" | jq '.[0].ifindex'; }

hooks() {
	local before after
	before=$(links | sed "s|$LAB_PINS||")
	healed "the sockets' programs are detached" detach_all '^[a-z]*[46]$'
	healed "their pins are removed" unpin '^connect'
	if says packets tcx; then
		healed "the uplink's programs are detached" detach_all "_$(index eth0)\$"
		healed "a pod's programs are detached" detach_all "_$(index pod1)\$"
		healed "their pins are removed" unpin '_[0-9]*$'
	else
		healed "the uplink's qdisc is removed" remove_clsact eth0
		healed "a pod's qdisc is removed" remove_clsact pod1
		REPLACED=()
		healed "a program is replaced at our handle" replace_filter eth0
		remove_replaced eth0
	fi
	healed "a map's pin is removed" unpin_map lb_frontends
	healed "all pins are removed with their directory" forget
	after=$(links | sed "s|$LAB_PINS||")
	[[ $before == "$after" ]] || die "the pins were '$before' and are '$after'"
}

# ---- Others. ----

# A filter that ends the chain for every packet, of kind bpf, the only kind that may share a priority with ours.
add_filter() { lab_in node tc filter add dev eth0 ingress prio 1 handle 1 bpf bytecode '1,6 0 0 4294967295,' flowid 1:1; }
remove_filter() { lab_in node tc filter delete dev eth0 ingress prio 1 handle 1 bpf; }

others() {
	local place=before
	[[ -z $(status others) ]] || die "a hook neighbour is there already: $(status others)"
	if says packets tcx; then
		place=after
		lab_in node tc qdisc add dev eth0 clsact
	fi
	add_filter
	shows "a filter that ends the chain" others "eth0 ingress"
	lab_wait 15 grep -q "other programs share our hooks: eth0 ingress.* us" "$LAB_DIR/agent.log" || die "the log does not say who came"
	printf 'named: %s\n' "$(status others)"
	if says others "before us"; then
		! asks client "$NODE" "$NODE_PORT" >/dev/null || die "nothing is hidden by the filter before ours"
	else
		served "a filter $place ours that ends the chain" "${everybody[@]}"
	fi
	remove_filter
	lab_wait 15 says_not others "us" || die "who went is named still: $(status others)"
	served "the filter went" "${everybody[@]}"
}

# xdp: checks that XDP's link is restored, on a device that XDP may use.
xdp() {
	says packets native || die "XDP does not run: $(status packets)"
	healed "XDP's program is detached" detach_all "^xdp_$(index eth0)\$"
	healed "XDP's pin is removed" unpin "^xdp_$(index eth0)\$"
	says packets native || die "XDP does not run any more: $(status packets)"
}

lab_up healing
lab_backends
lab_agent --xdp off --pod-devices pod
served "the start" client pod node
devices
hooks
others
printf 'brought back: %s\n' "$(restored)"
if [[ ,${SLUICE_WITHOUT:-}, != *,xdp,* ]]; then
	lab_stop "$LAB_AGENT" || true
	lab_offload off
	lab_agent --xdp native --pod-devices pod
	served "XDP" "${everybody[@]}"
	xdp
fi
