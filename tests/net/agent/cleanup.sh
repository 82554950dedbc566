#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-75: `sluice cleanup` removes everything of Sluice's, of any map layout, and changes nothing else; `cleanup
# --kube-proxy` removes kube-proxy's rules and no others (REL-44), byte for byte, with iptables-nft and iptables-legacy, for
# both families.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

LAYOUT=$(sed -n 's/^#define LB_LAYOUT //p' "$SLUICE_ROOT/maps/abi/abi.h")

# state: everything on the node that cleanup may touch.
state() {
	find "$LAB_PINS" 2>/dev/null | sort || true
	bpftool -j cgroup show "$LAB_CGROUP" | jq -c .
	lab_in node bpftool -j net show | net_programs | jq -c 'del(.flow_dissector)'
	lab_in node tc qdisc show
	lab_in node tc filter show dev eth0 ingress
	lab_in node tc filter show dev eth0 egress
	lab_in node nft list tables
}

# same WHAT BEFORE AFTER: checks that two files are equal.
same() { diff "$2" "$3" >&2 || die "$1: the difference is above"; }

# cleanup [OPTION...]: runs it with output to $LAB_DIR/said; returns its exit code.
cleanup() { lab_sluice cleanup "$@" >"$LAB_DIR/said" 2>"$LAB_DIR/errors"; }

# refused_beside_agent: checks that cleanup names the running agent in one message and changes nothing.
refused_beside_agent() {
	local code=0
	state >"$LAB_DIR/with-agent"
	cleanup || code=$?
	((code == 1)) || die "cleanup beside an agent: exit code $code"
	[[ $(wc -l <"$LAB_DIR/errors") == 1 ]] || die "cleanup beside an agent: not one message: $(cat "$LAB_DIR/errors")"
	grep -q "an agent (pid $LAB_AGENT) runs on the pins at $LAB_PINS" "$LAB_DIR/errors" || die "cleanup does not name the agent: $(cat "$LAB_DIR/errors")"
	state >"$LAB_DIR/after"
	same "cleanup beside an agent" "$LAB_DIR/with-agent" "$LAB_DIR/after"
	printf 'refused beside an agent: %s\n' "$(cat "$LAB_DIR/errors")"
}

# all_goes WHAT: checks that a dry run lists what cleanup then removes, and that a second cleanup finds nothing.
all_goes() {
	state >"$LAB_DIR/left"
	cleanup --dry-run || die "$1: a dry run failed: $(cat "$LAB_DIR/errors")"
	sed 's/^would remove //' "$LAB_DIR/said" >"$LAB_DIR/would"
	state >"$LAB_DIR/after"
	same "$1: a dry run changed something" "$LAB_DIR/left" "$LAB_DIR/after"
	cleanup || die "$1: exit code $?: $(cat "$LAB_DIR/errors")"
	same "$1: the dry run named something else" "$LAB_DIR/would" <(sed 's/^removed //' "$LAB_DIR/said")
	state >"$LAB_DIR/after"
	same "$1: something is left" "$LAB_DIR/before" "$LAB_DIR/after"
	cleanup || die "$1: a second time: exit code $?"
	[[ $(cat "$LAB_DIR/said") == "nothing of Sluice is left on this node" ]] || die "$1: a second time: $(cat "$LAB_DIR/said")"
	printf '%s: %d things removed\n' "$1" "$(wc -l <"$LAB_DIR/would")"
}

# tracks COUNT: checks that COUNT of our tables use conntrack (REL-89).
tracks() {
	local count
	count=$(lab_in node nft list tables | grep -c "sluice-ct-$LAB\$" || true)
	((count == $1)) || die "$count tables keep conntrack tracking, expected $1: $(lab_in node nft list tables)"
}

# stopped: kills the agent, so that its pins stay.
stopped() { lab_stop "$LAB_AGENT" KILL || true; }

sluice_goes() {
	local means
	state >"$LAB_DIR/before"
	cleanup || die "of nothing: exit code $?"
	lab_agent --xdp native --pod-devices pod
	refused_beside_agent
	tracks 2
	stopped
	all_goes "what a killed agent left"

	for means in tcx "tcx,xdp"; do
		SLUICE_WITHOUT=$means lab_agent --pod-devices pod
		stopped
		all_goes "what an agent left without $means"
	done

	lab_agent --xdp off
	stopped
	SLUICE_WITHOUT=ct-lookup lab_agent --xdp off
	tracks 0
	stopped
	all_goes "what an agent left without ct-lookup"

	# Two layouts with their own programs, which this version does not know, and one that was only begun.
	lab_agent --xdp off
	stopped
	mv "$LAB_PINS/v$LAYOUT" "$LAB_PINS-parked"
	lab_agent --xdp off
	stopped
	mv "$LAB_PINS/v$LAYOUT" "$LAB_PINS/v$((LAYOUT - 1))"
	mv "$LAB_PINS-parked" "$LAB_PINS/v$((LAYOUT + 7))"
	mkdir -p "$LAB_PINS/v99/maps" "$LAB_PINS/v99/links"
	all_goes "what several layouts left"
	lab_sluice drain >"$LAB_DIR/drain" || die "a drain where nothing is left fails: $(<"$LAB_DIR/drain")"
}

# others_stay: another owner's filter on the device keeps its qdisc.
others_stay() {
	lab_in node tc qdisc add dev eth0 clsact
	lab_in node tc filter add dev eth0 ingress prio 7 handle 1 bpf bytecode '1,6 0 0 4294967295,' flowid 1:1
	state >"$LAB_DIR/before"
	SLUICE_WITHOUT=tcx,xdp lab_agent
	stopped
	all_goes "beside a filter of others"
	lab_in node tc qdisc del dev eth0 clsact
}

# as_deployed: does what a node's pod of k8s/deploy/uninstall does, in the image's root, with exactly its capabilities; its
# second container runs until it is stopped.
as_deployed() {
	local manifest=$SLUICE_ROOT/k8s/deploy/uninstall/daemonset.yaml capabilities some
	local -a containers arguments
	capabilities=$(sed -n 's/^ *add: \[\(.*\)\]$/\1/p' "$manifest" | sort -u | tr -d ' ')
	mapfile -t containers < <(sed -n 's/^ *args: \[\(.*\)\]$/\1/p' "$manifest" | tr -d ,)
	[[ ${#containers[@]} == 2 && -n $capabilities ]] || die "daemonset.yaml has not two containers with the same capabilities"
	mkdir "$LAB_DIR/image"
	"$SLUICE_ROOT/scripts/lib/image" "$SLUICE" "$LAB_DIR/image"
	state >"$LAB_DIR/before"
	read -ra arguments <<<"${containers[0]}"
	for some in "${capabilities/,SYS_ADMIN/}" "$capabilities"; do
		SLUICE_WITHOUT=tcx,xdp lab_agent
		stopped
		lab_in node "${CONTAINER[@]}" "$LAB_DIR/image" "$some" "${CONTAINER_MOUNTS[@]}" -- \
			/usr/bin/sluice "${arguments[@]}" --pins "$LAB_PINS" >"$LAB_DIR/said" 2>&1 || die "with $some: $(cat "$LAB_DIR/said")"
		state >"$LAB_DIR/after"
		same "with $some: something is left" "$LAB_DIR/before" "$LAB_DIR/after"
		printf 'as deployed, with %s: nothing is left\n' "$some"
	done
	read -ra arguments <<<"${containers[1]}"
	lab_start node stays.log "${CONTAINER[@]}" "$LAB_DIR/image" "$capabilities" "${CONTAINER_MOUNTS[@]}" -- \
		/usr/bin/sluice "${arguments[@]}" --pins "$LAB_PINS"
	lab_wait 10 grep -q '^nothing of Sluice is left on this node$' "$LAB_DIR/stays.log" || die "the second container: $(cat "$LAB_DIR/stays.log")"
	kill -0 "$LAB_STARTED" || die "the second container does not stay"
	lab_stop "$LAB_STARTED" || die "the second container ended badly"
}
CONTAINER=(env -i "$(command -v python3)" "$SLUICE_ROOT/tests/e2e/lib/container.py")
CONTAINER_MOUNTS=(--mount /proc:/proc --mount /sys:/sys:ro --mount /sys/fs/bpf:/sys/fs/bpf)

# ---- kube-proxy's rules. ----

# by FAMILY KIND COMMAND...: runs iptables; FAMILY is ip or ip6, KIND nft or legacy.
by() { lab_in node "$1tables-$2" "${@:3}"; }

# rules_of_others FAMILY KIND: adds the rules of a kubelet, a network plug-in and an operator, before and after kube-proxy's.
rules_of_others() {
	by "$1" "$2" -t mangle -N KUBE-KUBELET-CANARY
	by "$1" "$2" -t mangle -N KUBE-IPTABLES-HINT
	by "$1" "$2" -t filter -N KUBE-FIREWALL
	by "$1" "$2" -t filter -A INPUT -j KUBE-FIREWALL
	by "$1" "$2" -t filter -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
	by "$1" "$2" -t filter -N KUBE-ROUTER-INPUT
	by "$1" "$2" -t filter -A INPUT -m comment --comment "KUBE-SERVICES is not a jump" -j KUBE-ROUTER-INPUT
	by "$1" "$2" -t nat -N CNI-HOSTPORT-DNAT
	by "$1" "$2" -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
	by "$1" "$2" -t nat -A CNI-HOSTPORT-DNAT -p tcp --dport 8080 -c 7 700 -j RETURN
	by "$1" "$2" -t nat -A POSTROUTING -p tcp --dport 9 # counts, and leads nowhere
}

# rules_of_kube_proxy FAMILY KIND: adds rules as its iptables mode writes them, before, between and after others' rules.
rules_of_kube_proxy() {
	by "$1" "$2" -t mangle -N KUBE-PROXY-CANARY
	for chain in KUBE-SERVICES KUBE-NODEPORTS KUBE-POSTROUTING KUBE-MARK-MASQ KUBE-PROXY-CANARY KUBE-SVC-NPX46M4PTMTKRN6Y \
		KUBE-EXT-NPX46M4PTMTKRN6Y KUBE-SEP-AAAAAAAAAAAAAAAA KUBE-SVL-NPX46M4PTMTKRN6Y; do
		by "$1" "$2" -t nat -N "$chain"
	done
	by "$1" "$2" -t nat -I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
	by "$1" "$2" -t nat -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
	by "$1" "$2" -t nat -A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
	by "$1" "$2" -t nat -A POSTROUTING -p tcp --dport 10 # of others, behind it
	by "$1" "$2" -t nat -A KUBE-SERVICES -p tcp --dport 80 -j KUBE-SVC-NPX46M4PTMTKRN6Y
	by "$1" "$2" -t nat -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
	by "$1" "$2" -t nat -A KUBE-NODEPORTS -p tcp --dport 30080 -j KUBE-EXT-NPX46M4PTMTKRN6Y
	by "$1" "$2" -t nat -A KUBE-EXT-NPX46M4PTMTKRN6Y -j KUBE-MARK-MASQ
	by "$1" "$2" -t nat -A KUBE-EXT-NPX46M4PTMTKRN6Y -g KUBE-SVC-NPX46M4PTMTKRN6Y
	by "$1" "$2" -t nat -A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-AAAAAAAAAAAAAAAA
	by "$1" "$2" -t nat -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
	by "$1" "$2" -t nat -A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
	for chain in KUBE-SERVICES KUBE-EXTERNAL-SERVICES KUBE-FORWARD KUBE-NODEPORTS KUBE-PROXY-FIREWALL KUBE-PROXY-CANARY; do
		by "$1" "$2" -t filter -N "$chain"
	done
	by "$1" "$2" -t filter -I INPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
	by "$1" "$2" -t filter -A INPUT -j KUBE-NODEPORTS
	by "$1" "$2" -t filter -A FORWARD -j KUBE-FORWARD
	by "$1" "$2" -t filter -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
}

# tables FAMILY KIND: iptables-save without its comments, which contain the time.
tables() { lab_in node "$1tables-$2-save" 2>"$LAB_DIR/warnings" | grep -v '^#'; }
all_tables() {
	local family kind
	for kind in nft legacy; do
		for family in ip ip6; do tables "$family" "$kind"; done
	done
	lab_in node nft list table inet others
}

# counters: the counters of another owner's rules, in each table that has them; ip6tables-nft has none at first.
counters() {
	local family kind
	for kind in nft legacy; do
		for family in ip ip6; do by "$family" "$kind" -t nat -v -S CNI-HOSTPORT-DNAT 2>"$LAB_DIR/warnings"; done
	done
}

# needs_replacement: checks that kube-proxy's rules stay if no Sluice would serve in their place, unless --force is given;
# each refusal is one message that says why.
needs_replacement() {
	no_replacement "nothing is pinned"
	lab_agent
	cleanup --kube-proxy || die "beside an agent that serves: $(cat "$LAB_DIR/errors")"
	lacks KUBE-SVC tables ip nft || die "beside an agent that serves rules are left"
	rules_of_kube_proxy ip nft
	lab_sluice drain --force --deadline 0 >"$LAB_DIR/drain" || true
	no_replacement "it is drained, and takes no new flows"
	lab_sluice drain --cancel
	stopped
	no_replacement "no agent runs"
	cleanup --kube-proxy --dry-run || die "a dry run without an agent: $(cat "$LAB_DIR/errors")"
	cleanup --kube-proxy --force || die "with --force: $(cat "$LAB_DIR/errors")"
	lacks KUBE-SVC tables ip nft || die "with --force rules are left"
	! cleanup --force || die "takes --force without --kube-proxy"
	cleanup || die "the agent's pins do not go: $(cat "$LAB_DIR/errors")"
}

# no_replacement WHY: checks that cleanup refuses with WHY.
no_replacement() {
	local code=0
	all_tables >"$LAB_DIR/with"
	cleanup --kube-proxy || code=$?
	((code == 1)) || die "without a replacement ($1): exit code $code: $(cat "$LAB_DIR/said")"
	[[ $(wc -l <"$LAB_DIR/errors") == 1 ]] || die "not one message: $(cat "$LAB_DIR/errors")"
	grep -q "^sluice: no Sluice with the pins $LAB_PINS serves here ($1), .* have no services: .*--force$" "$LAB_DIR/errors" ||
		die "the refusal does not say '$1': $(cat "$LAB_DIR/errors")"
	all_tables >"$LAB_DIR/after"
	same "a refused clean-up changed rules" "$LAB_DIR/with" "$LAB_DIR/after"
	printf "kube-proxy's rules stay: %s\n" "$1"
}

# behind_others: a port mapping that uses kube-proxy's mark, as the portmap plug-in may, and its own chain that jumps to
# kube-proxy's.
behind_others() {
	by ip nft -t nat -N CNI-HOSTPORT-SETMARK
	by ip nft -t nat -A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ
	cleanup --kube-proxy --force || die "beside a port mapping: $(cat "$LAB_DIR/errors")"
	grep -q "^kept, because others' chains lead there: chain KUBE-MARK-MASQ in iptables-nft's nat$" "$LAB_DIR/said" ||
		die "cleanup does not say what it kept: $(cat "$LAB_DIR/said")"
	tables ip nft >"$LAB_DIR/after"
	grep -q '^:KUBE-MARK-MASQ ' "$LAB_DIR/after" || die "a chain that others lead to is gone"
	grep -q -- '-j KUBE-POSTROUTING$' "$LAB_DIR/after" || die "what is marked for others is not masqueraded any more"
	! grep -q 'KUBE-SERVICES -\|KUBE-SVC' "$LAB_DIR/after" || die "kube-proxy's rules are left: $(cat "$LAB_DIR/after")"
	by ip nft -t nat -F CNI-HOSTPORT-SETMARK
	by ip nft -t nat -X CNI-HOSTPORT-SETMARK
	cleanup --kube-proxy --force || die "without the port mapping: $(cat "$LAB_DIR/errors")"
}

kube_proxy_goes() {
	local family kind
	lab_in node nft add table inet others
	for kind in nft legacy; do
		for family in ip ip6; do rules_of_others "$family" "$kind"; done
	done
	for kind in nft legacy; do
		for family in ip ip6; do by "$family" "$kind" -t nat -A POSTROUTING -p tcp --dport 10; done
	done
	all_tables >"$LAB_DIR/before"
	counters >"$LAB_DIR/counted"
	grep -q -- '-c 7 700 ' "$LAB_DIR/counted" || die "no rule of others has counted anything"
	cleanup --kube-proxy || die "of nothing: $(cat "$LAB_DIR/errors")"
	[[ $(cat "$LAB_DIR/said") == "nothing of kube-proxy is left on this node" ]] || die "of nothing: $(cat "$LAB_DIR/said")"
	for kind in nft legacy; do
		for family in ip ip6; do
			by "$family" "$kind" -t nat -D POSTROUTING -p tcp --dport 10
			rules_of_kube_proxy "$family" "$kind"
		done
	done
	lab_in node nft add table ip kube-proxy
	lab_in node nft add table ip6 kube-proxy
	lab_in node nft 'add chain ip kube-proxy services; add chain ip kube-proxy prerouting { type nat hook prerouting priority 0; }; add rule ip kube-proxy prerouting jump services'
	all_tables >"$LAB_DIR/with"
	! cmp -s "$LAB_DIR/before" "$LAB_DIR/with" || die "there are no rules to remove"
	cleanup --kube-proxy --dry-run || die "a dry run: $(cat "$LAB_DIR/errors")"
	all_tables >"$LAB_DIR/after"
	same "a dry run changed kube-proxy's rules" "$LAB_DIR/with" "$LAB_DIR/after"
	cleanup --kube-proxy --force || { cat "$LAB_DIR/errors" && die "kube-proxy's rules do not go"; }
	all_tables >"$LAB_DIR/after"
	same "rules of others are not as they were" "$LAB_DIR/before" "$LAB_DIR/after"
	counters >"$LAB_DIR/counted-after"
	same "counters of others" "$LAB_DIR/counted" "$LAB_DIR/counted-after"
	lacks kube-proxy lab_in node nft list tables || die "a table of the nftables mode is left"
	cleanup --kube-proxy || die "a second time: exit code $?"
	[[ $(cat "$LAB_DIR/said") == "nothing of kube-proxy is left on this node" ]] || die "a second time: $(cat "$LAB_DIR/said")"
	printf "kube-proxy's rules are gone, and those of others as they were\n"
	rules_of_kube_proxy ip nft
	needs_replacement
	rules_of_kube_proxy ip nft
	behind_others
	printf 'a chain that a port mapping leads to stays until the mapping is gone\n'
}

lab_up cleanup
lab_offload off
lab_backends
sluice_goes
others_stay
as_deployed
kube_proxy_goes
