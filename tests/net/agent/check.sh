#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sluice check reports what the agent's start would report, and changes nothing. Each fault is given to both: what check
# reports as missing ends the agent, with the same words.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/common.sh"
# shellcheck source=scripts/lib/sandbox.sh
source "$SLUICE_ROOT/scripts/lib/sandbox.sh"
SLUICE=${SLUICE:-$BUILD_ROOT/sluice}
need_root

# Runs in its own network and mount namespaces.
[[ -n ${CHECK_INSIDE:-} ]] || CHECK_INSIDE=1 exec unshare --net --mount "$0" "$@"

NAME=check-$$
WORK=$(mktemp -d)
PINS=/sys/fs/bpf/$NAME
CGROUP=$(cgroup_root)/$NAME
AGENT='' LIMITED=''

clean_up() {
	[[ -z $AGENT ]] || kill -KILL "$AGENT" 2>/dev/null || true
	[[ -z $AGENT ]] || wait "$AGENT" 2>/dev/null || true
	[[ -z $LIMITED || ! -d $LIMITED ]] || rmdir "$LIMITED"
	rm -rf "$PINS" "$WORK"
	[[ ! -d $CGROUP ]] || rmdir "$CGROUP"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Its own bpffs and /run/netns, and no mounts of concurrent tests: whoever removes a mount's directory elsewhere removes the
# mount here.
mount -t bpf none /sys/fs/bpf
mkdir -p /run/netns
for mount in $(awk -v temporary="${TMPDIR:-/tmp}" 'index($2, "/tmp/") == 1 || index($2, temporary "/") == 1 ||
	$2 ~ "^/run/(netns/|containerd)" { print $2 }' /proc/self/mounts | tac); do
	umount -l "$mount" 2>/dev/null || true
done
mount -t tmpfs none /run/netns
mkdir "$CGROUP" "$WORK/manifests"
ip link set lo up
ip link add eth0 type veth peer name peer0
ip link set eth0 up
ip link set peer0 up
ip link add bridge0 type bridge # has no XDP in its driver
ip link set bridge0 up

# The options of both commands; set_option changes one of them.
OPTIONS=(--manifests "$WORK/manifests" --node checked --devices eth0 --cgroup "$CGROUP" --pins "$PINS"
	--health 127.0.0.1:10256 --metrics off --max-flows 1024 --max-unassured 1024)

# set_option NAME VALUE: sets or adds an option.
set_option() {
	local at
	for at in "${!OPTIONS[@]}"; do
		[[ ${OPTIONS[at]} != "$1" ]] || { OPTIONS[at + 1]=$2 && return; }
	done
	OPTIONS+=("$1" "$2")
}

# state: everything that a check could leave behind: pins and mounts, hooks, devices, locks, settings, its programs and maps.
state() {
	find /sys/fs/bpf 2>/dev/null | sort
	cat /proc/self/mounts
	ip -o link show
	tc qdisc show
	tc filter show dev eth0 ingress
	bpftool -j net show | net_programs
	bpftool cgroup show "$CGROUP"
	find /run/netns /proc/sys/net/netfilter -type f 2>/dev/null | sort
	cat /proc/sys/net/netfilter/nf_conntrack_max 2>/dev/null || true
}

# find_in SUBJECT WHAT: a field of a finding of the last check.
find_in() { jq -r --arg subject "$1" ".findings[] | select(.what == \$subject) | .$2" "$WORK/said"; }

# checked CODE COMMAND...: runs a check in JSON, which must exit with CODE and change nothing.
checked() {
	local code=0 wanted=$1
	shift
	state >"$WORK/before"
	"$@" -o json >"$WORK/said" 2>"$WORK/errors" </dev/null || code=$?
	state >"$WORK/after"
	[[ ! -s $WORK/errors ]] || { cat "$WORK/errors" && die "'$*' complained"; }
	jq -e . "$WORK/said" >/dev/null || { cat "$WORK/said" && die "'$*' wrote no JSON"; }
	((code == wanted)) || { jq . "$WORK/said" && die "'$*' ended with $code, not $wanted"; }
	[[ $(jq .starts "$WORK/said") == "$( ((code == 0)) && echo true || echo false)" ]] || die "its code is $code, its JSON says otherwise"
	diff "$WORK/before" "$WORK/after" || die "'$*' changed this"
}

# verdict SUBJECT VERDICT WORDS: checks that the last check has this finding.
verdict() {
	[[ $(find_in "$1" verdict) == "$2" && $(find_in "$1" found) == *"$3"* ]] ||
		{ jq . "$WORK/said" && die "$1: '$(find_in "$1" verdict)', '$(find_in "$1" found)'; wanted '$2', '$3'"; }
	printf '%s: %s: %s\n' "$1" "$2" "$(find_in "$1" found)"
}

# missing SUBJECT WORDS COMMAND...: COMMAND runs the commands given to it. Under it both refuse, with these words: `check` in
# the line SUBJECT, the agent in its one message, which repeats the check's finding and advice.
missing() {
	local subject=$1 words=$2 code=0 said
	shift 2
	checked 1 "$@" timeout 60 "$SLUICE" check "${OPTIONS[@]}"
	verdict "$subject" missing "$words"
	[[ -n $(find_in "$subject" advice) ]] || die "$subject: does not say what to do"
	"$@" timeout 60 "$SLUICE" agent "${OPTIONS[@]}" >"$WORK/output" 2>&1 </dev/null || code=$?
	((code == 1)) || { cat "$WORK/output" && die "$subject: the agent ended with $code, not 1"; }
	said="sluice: $(find_in "$subject" found): $(find_in "$subject" advice)"
	grep -qxF "$said" "$WORK/output" || { cat "$WORK/output" && die "the agent does not say '$said'"; }
	state >"$WORK/after"
	diff "$WORK/before" "$WORK/after" || die "the agent that did not start changed this"
}

as_it_is() { "$@"; }
without_capabilities() { setpriv --bounding-set=-all --inh-caps=-all "$@"; }

# ---- A machine on which it starts. ----
ethtool -K peer0 gro on # makes it poll, so that eth0 takes frames of XDP
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict "bpf()" ok works
verdict kernel ok "$(uname -r)"
verdict JIT ok compiled
verdict bpffs ok mounted
verdict cgroup ok "$CGROUP"
verdict "device eth0" ok "driver veth"
verdict "program lb_tc_in" ok "of 1000000 instructions"
verdict "program lb_connect4" ok loads
verdict agent ok "none runs on $PINS"
verdict "tc hooks" ok "no other programs"
verdict kube-proxy ok "no rules"
[[ $(jq '[.findings[] | select(.verdict == "missing")] | length' "$WORK/said") == 0 ]] || die "something is missing where it starts"
verdict "feature socket-reconnect" ok present
# A container without hostPID: process 1 is this program.
checked 0 unshare --pid --fork --mount-proc "$SLUICE" check "${OPTIONS[@]}"
verdict "feature socket-reconnect" warning "absent; instead: UDP sockets ended"
"$SLUICE" check "${OPTIONS[@]}" >"$WORK/table"
grep -q '^VERDICT' "$WORK/table" || die "the table has no titles"
grep -q '^An agent with these options would start' "$WORK/table" || die "the table has no conclusion"
[[ $(grep -cE '^(ok|warning|missing) ' "$WORK/table") == "$(jq '.findings | length' "$WORK/said")" ]] || die "table and JSON differ"

# ---- What only warns. ----
ethtool -K peer0 gro off
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict "device eth0" warning "does not transmit frames"
checked 0 "$SLUICE" check "${OPTIONS[@]}" --conntrack-dir "$WORK/absent"
verdict conntrack warning "nf_conntrack is not loaded"
set_option --devices bridge0
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict "device bridge0" ok "no XDP"
set_option --devices eth0
nft add table ip kube-proxy
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict kube-proxy warning nftables
nft delete table ip kube-proxy
tc qdisc add dev eth0 clsact
tc filter add dev eth0 ingress bpf bytecode '1,6 0 0 0' # a classic program, which has no name
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict "hook eth0 ingress" warning "bpf runs there too"
tc qdisc delete dev eth0 clsact

# A hybrid host: version 2 is mounted below the directory that is named (REL-181).
mkdir -p "$WORK/hybrid/unified"
mount --bind "$CGROUP" "$WORK/hybrid/unified"
set_option --cgroup "$WORK/hybrid"
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict cgroup ok "v2, $WORK/hybrid/unified"
set_option --cgroup "$CGROUP"
umount "$WORK/hybrid/unified"

# kube-proxy would reach the API server by the proxy of the environment (REL-180).
HTTPS_PROXY=http://192.0.2.1:3128 checked 0 "$SLUICE" check "${OPTIONS[@]}"
[[ -z $(find_in "HTTP proxy" found) ]] || die "without an API server a proxy is named"
HTTPS_PROXY=http://192.0.2.1:3128 checked 0 "$SLUICE" check "${OPTIONS[@]:2}" --api-server http://127.0.0.1:1 # in place of --manifests
verdict "HTTP proxy" warning "uses no HTTP proxy (HTTPS_PROXY)"

checked 0 "$SLUICE" check "${OPTIONS[@]}" --without tcx,fib-mark
verdict tc ok "clsact qdisc"
verdict "feature tcx" ok "switched off; instead: clsact"
[[ $(jq '[.findings[] | select(.what | startswith("feature "))] | length' "$WORK/said") == 13 ]] || die "not every feature is reported"

# ---- What is missing, to a check as to a start. ----
missing "bpf()" "lacks CAP_BPF" without_capabilities
missing "bpf()" "lacks CAP_PERFMON" setpriv --bounding-set=-perfmon,-sys_admin --inh-caps=-perfmon,-sys_admin
missing "bpf()" "a seccomp filter refuses bpf()" python3 "$SLUICE_ROOT/tests/net/lib/refuse_bpf.py" EPERM
missing "bpf()" "has no bpf()" python3 "$SLUICE_ROOT/tests/net/lib/refuse_bpf.py" ENOSYS
# The verifier refuses one program near its end: sockets are served without it, and check still loads the others (REL-131).
REFUSED="(invalid write to stack R10 off=8 size=8)"
spoil() { python3 "$SLUICE_ROOT/tests/net/lib/refused_program.py" "$SLUICE" "$(dirname "$SLUICE")/bpf/lb.o" "$WORK/spoiled" "$@"; }
spoil lb_tc_in
checked 0 "$WORK/spoiled" check "${OPTIONS[@]}"
verdict "program lb_tc_out" ok "of 1000000 instructions; useless without those refused"
verdict "program lb_connect4" ok "of 1000000 instructions"
[[ $(jq -r 'first(.findings[] | select(.what == "program lb_tc_in") | .found)' "$WORK/said") == \
	"the kernel refuses the program lb_tc_in $REFUSED; it is left out: uplinks are not served" ]] || { jq . "$WORK/said" && die "it does not say what an agent does"; }
[[ $(jq -r '[.findings[] | select(.what == "program lb_tc_in") | .found | select(startswith("nor without "))] | length' "$WORK/said") == 8 ]] ||
	die "not every attempt is reported"
"$WORK/spoiled" check "${OPTIONS[@]}" >"$WORK/table"
[[ $(grep -c '^warning .*program lb_tc_in .*refuses the program lb_tc_in' "$WORK/table") == 1 ]] || { cat "$WORK/table" && die "not in one line"; }
# Nothing else could serve.
spoil lb_connect4 lb_connect6 lb_tc_in
checked 1 "$WORK/spoiled" check "${OPTIONS[@]}"
verdict programs missing "the kernel refuses every program by which this node could be served, first lb_connect4 $REFUSED"
[[ $(jq '[.findings[] | select(.verdict == "missing")] | length' "$WORK/said") == 1 ]] || die "more is missing"
set_option --devices eth7
missing "device eth7" "no network device eth7" as_it_is
set_option --devices bridge0
set_option --xdp native
missing "device bridge0" "bridge0 cannot run XDP" as_it_is
set_option --devices eth0
set_option --xdp auto
set_option --cgroup "$WORK"
missing cgroup "not in a cgroup v2 file system" as_it_is
set_option --cgroup "$CGROUP"
set_option --pins "$WORK/pins"
missing bpffs "not on a bpf file system" as_it_is
set_option --pins "$PINS"
set_option --cluster-secret "$WORK/absent"
missing "cluster secret" "$WORK/absent" as_it_is
set_option --cluster-secret ''
set_option --manifests "$WORK/absent"
missing source "$WORK/absent" as_it_is
set_option --manifests "$WORK/manifests"

# unmounting TYPE COMMAND...: runs COMMAND without any mounted file system whose type begins with TYPE.
unmounting() {
	# shellcheck disable=SC2016  # expanded inside
	unshare --mount bash -c 'while root=$(awk -v type="$0" '\''index($3, type) == 1 { print $2 }'\'' /proc/self/mounts | tail -n 1) && [[ -n $root ]]; do
		umount -l "$root"
	done; exec "$@"' "$@"
}
no_cgroup() { unmounting cgroup "$@"; }
cgroup_v1() { unmounting cgroup2 "$@"; }
set_option --cgroup ''
missing cgroup "no cgroup v2 file system is mounted" no_cgroup
# The message where version 1 is not mounted either; tests/kernels/check.sh has both cases.
v1_alone="cgroup v1 alone is mounted"
grep -q ' cgroup ' /proc/self/mounts || v1_alone="no cgroup v2 file system is mounted"
missing cgroup "$v1_alone" cgroup_v1
set_option --cgroup "$CGROUP"

# ---- No bpf file system: who may mounts it, and a start that fails takes it away again. ----
no_bpffs() {
	# shellcheck disable=SC2016  # expanded inside
	unshare --mount bash -c 'while mountpoint -q /sys/fs/bpf; do umount -l /sys/fs/bpf; done; "$@"
		code=$?
		grep -c " /sys/fs/bpf bpf " /proc/self/mounts >"$0"
		exit "$code"' "$WORK/mounts" "$@"
}
checked 0 no_bpffs "$SLUICE" check "${OPTIONS[@]}"
verdict bpffs ok "not mounted; the agent mounts it"
[[ $(cat "$WORK/mounts") == 0 ]] || die "a check mounted the bpf file system"
set_option --devices eth7
missing "device eth7" "no network device eth7" no_bpffs
[[ $(cat "$WORK/mounts") == 0 ]] || die "a start that failed left the bpf file system mounted"
set_option --devices eth0

# ---- Memory. ----
read -r place limit < <(memory_cgroup)
LIMITED=$place/$NAME-memory
mkdir -p "$LIMITED"
echo $((48 << 20)) >"$LIMITED/$limit"
# shellcheck disable=SC2016  # expanded inside
limited() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$LIMITED" "$@"; }
set_option --max-flows 1000000
missing memory "the memory limit of 48 MiB is too small" limited
set_option --max-flows 1024

# ---- A port that is taken, and an agent that runs. ----
python3 -m http.server --bind 127.0.0.1 10256 >/dev/null 2>&1 &
AGENT=$!
for ((i = 0; i < 200; i++)); do ! curl -s -o "$WORK/page" http://127.0.0.1:10256/ || break; sleep 0.1; done
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict "health server" warning "cannot listen on 127.0.0.1:10256"
OPTIONS+=(--bind-address-hard-fail)
missing "health server" "cannot listen on 127.0.0.1:10256" as_it_is
unset 'OPTIONS[-1]'
kill "$AGENT" && wait "$AGENT" || true
"$SLUICE" agent "${OPTIONS[@]}" >"$WORK/log" 2>&1 &
AGENT=$!
for ((i = 0; i < 300; i++)); do
	! curl -sf -o "$WORK/page" http://127.0.0.1:10256/healthz || break
	kill -0 "$AGENT" || { cat "$WORK/log" && die "the agent did not start"; }
	sleep 0.1
done
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict agent warning "(pid $AGENT) runs on $PINS"
verdict "health server" ok "beside a running agent"
verdict "tc hooks" ok "no other programs"
verdict "program lb_xdp" ok loads
[[ $("$SLUICE" status --pins "$PINS" -o json | jq .agent.pid) == "$AGENT" ]] || die "the agent is gone"
kill -TERM "$AGENT" && wait "$AGENT" || true
checked 0 "$SLUICE" check "${OPTIONS[@]}"
verdict agent ok "none runs"
printf 'a check changes nothing, beside an agent or on what it left\n'
