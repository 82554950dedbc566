#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the agent and the commands refuse: one clear message that says what to do, exit code 1, no change of state. REL-163: as JSON, too.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/common.sh"
# shellcheck source=scripts/lib/sandbox.sh
source "$SLUICE_ROOT/scripts/lib/sandbox.sh"
SLUICE=${SLUICE:-$BUILD_ROOT/sluice}
need_root

# Runs in its own network and mount namespaces.
[[ -n ${BAD_INPUT_INSIDE:-} ]] || BAD_INPUT_INSIDE=1 exec unshare --net --mount "$0" "$@"

NAME=bad-input-$$
WORK=$(mktemp -d)
PINS=/sys/fs/bpf/$NAME
CGROUP=$(cgroup_root)/$NAME
AGENT='' LIMITED=''

clean_up() {
	[[ -z $AGENT ]] || kill -KILL "$AGENT" 2>/dev/null || true
	[[ -z $LIMITED || ! -d $LIMITED ]] || rmdir "$LIMITED"
	rm -rf "$PINS" "$PINS-2" "$WORK"
	[[ ! -d $CGROUP ]] || rmdir "$CGROUP"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$CGROUP" "$WORK/manifests" "$WORK/unreadable"
ip link set lo up
ip link add eth0 type veth peer name peer0
ip link set eth0 up
ip link add bridge0 type bridge # has no XDP in its driver
ip link set bridge0 up

# state: everything that this test could change: pins, XDP and tc of its devices, links to its cgroup.
state() {
	find "$PINS" "$PINS-2" 2>/dev/null || true
	ip -o link show
	tc filter show dev eth0 ingress
	bpftool -j net show | net_programs
	bpftool cgroup show "$CGROUP"
}

# refused WHAT WORDS COMMAND...: checks that COMMAND prints one message with WORDS and changes nothing.
refused() {
	local what=$1 words=$2 code=0 wanted=1 said
	shift 2
	state >"$WORK/before"
	timeout 20 "$@" >"$WORK/output" 2>"$WORK/errors" </dev/null || code=$?
	state >"$WORK/after"
	! grep -q -- "--help'$" "$WORK/errors" || wanted=2 # a wrong command line
	((code == wanted)) || { cat "$WORK/errors" && die "$what: exit code $code, not $wanted"; }
	[[ ! -s $WORK/output ]] || { cat "$WORK/output" && die "$what: printed something, although it was refused"; }
	# The log lines of an agent that starts may precede it.
	said=$(grep -v '^2[0-9]*-.*Z info ' "$WORK/errors") || true
	[[ $said == "sluice: "* && $said != *$'\n'* ]] || { cat "$WORK/errors" && die "$what: not one message of sluice"; }
	[[ $said == *"$words"* ]] || { cat "$WORK/errors" && die "$what: does not say '$words'"; }
	diff "$WORK/before" "$WORK/after" || die "$what: changed this"
	printf '%s: %s\n' "$what" "$said"
	[[ " $* " != *" agent "* ]] || refused_as_json "$what" "$words" "$@"
}

# refused_as_json WHAT WORDS COMMAND...: the same by `--log-format json`: each line is an object, the last one is the message.
refused_as_json() {
	local what=$1 words=$2
	shift 2
	timeout 20 "$@" --log-format json >"$WORK/output" 2>"$WORK/errors" </dev/null && die "$what: --log-format json is not refused"
	jq -es --arg words "$words" 'all(.[]; .time and .level and .message) and (last | .level == "critical" and (.message | contains($words)))
		and ([.[] | select(.level != "info")] | length == 1)' "$WORK/errors" >"$WORK/output" ||
		{ cat "$WORK/errors" && die "REL-163: $what: not one message as JSON"; }
}

# agent OPTION...: the arguments of an agent that would start; later options override.
agent() {
	printf '%s\n' "$SLUICE" agent --manifests "$WORK/manifests" --node bad --devices eth0 --cgroup "$CGROUP" --pins "$PINS" \
		--health 127.0.0.1:10256 --metrics off --max-flows 1024 --max-unassured 1024
}
mapfile -t START < <(agent)

# with OPTION VALUE: sets CHANGED to START with that value of the option.
with() {
	local at
	CHANGED=("${START[@]}")
	for at in "${!CHANGED[@]}"; do
		[[ ${CHANGED[at]} != "$1" ]] || { CHANGED[at + 1]=$2 && return; }
	done
	CHANGED+=("$1" "$2")
}

# ---- The command line. ----
refused "unknown option" "see 'sluice agent --help'" "${START[@]}" --frobnicate
refused "unknown command" "see 'sluice --help'" "$SLUICE" frobnicate
refused "no command" "a command is missing" "$SLUICE"
with --xdp fast
refused "unknown XDP mode" "auto generic native off" "${CHANGED[@]}"
with --without luck
refused "unknown feature" "'luck' is not one of" "${CHANGED[@]}"

# ---- The place. ----
with --manifests "$WORK/absent"
refused "absent directory" "$WORK/absent" "${CHANGED[@]}"
touch "$WORK/file"
with --manifests "$WORK/file"
refused "a file as directory" "name a directory" "${CHANGED[@]}"
chmod 000 "$WORK/unreadable"
with --manifests "$WORK/unreadable"
refused "unreadable directory" "ermission denied" setpriv --bounding-set=-all --inh-caps=-all "${CHANGED[@]}"
refused "missing privileges" "run it as root" setpriv --bounding-set=-all --inh-caps=-all "${START[@]}"
with --devices eth7
refused "absent device" "no network device eth7" "${CHANGED[@]}"
with --cgroup "$WORK"
refused "no cgroup" "not in a cgroup v2 file system" "${CHANGED[@]}"
with --cgroup "$CGROUP/absent"
refused "absent cgroup" "$CGROUP/absent" "${CHANGED[@]}"
with --pins "$WORK/pins"
refused "pins on a disk" "not on a bpf file system" "${CHANGED[@]}"
with --pins "$PINS.dot"
refused "pins with a dot" "contains a dot" "${CHANGED[@]}"
mkdir -m 777 "$PINS"
refused "REL-56: pins that others may write" "$PINS can be written by others (mode 0777)" "${START[@]}"
chmod 700 "$PINS" && chown nobody "$PINS"
refused "REL-56: pins of another user" "$PINS belongs to user 65534" "${START[@]}"
mkdir -m 700 "$PINS/below" && with --pins "$PINS/below"
refused "REL-56: pins below another user's directory" "$PINS belongs to user 65534" "${CHANGED[@]}"
rm -r "$PINS" && ln -s "$PINS-2" "$PINS"
refused "REL-56: a link in place of the pins" "$PINS is no directory" "${START[@]}"
rm "$PINS"
with --devices bridge0
refused "XDP that the driver has not" "bridge0" "${CHANGED[@]}" --xdp native

# no_cgroup COMMAND...: runs COMMAND without any cgroup v2 mounted.
no_cgroup() {
	# shellcheck disable=SC2016  # expanded inside
	unshare --mount bash -c 'while root=$(awk '\''$3 == "cgroup2" { print $2; exit }'\'' /proc/self/mounts) && [[ -n $root ]]; do
		umount -l "$root"
	done; exec "$@"' no_cgroup "$@"
}
export -f no_cgroup
with --cgroup ''
refused "no cgroup v2" "mount -t cgroup2" bash -c 'no_cgroup "$@"' bash "${CHANGED[@]}"

# ---- The family. ----
cat >"$WORK/manifests/node.yaml" <<-YAML
	apiVersion: v1
	kind: Node
	metadata: {name: bad}
	status: {addresses: [{type: InternalIP, address: "fd00::1"}, {type: InternalIP, address: 10.0.0.1}]}
YAML
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
refused "SEM-85: the Node's first family is switched off" "net.ipv6.conf.all.disable_ipv6" "${START[@]}"
echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6
rm "$WORK/manifests/node.yaml"

# ---- Memory. ----
read -r place limit < <(memory_cgroup)
LIMITED=$place/$NAME-memory
mkdir "$LIMITED"
echo $((48 << 20)) >"$LIMITED/$limit"
# shellcheck disable=SC2016  # expanded inside
inside=(bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$LIMITED")
with --max-flows 1000000
refused "REL-62: a memory limit below the maps' sizes" "the memory limit of 48 MiB is too small" \
	"${inside[@]}" "${CHANGED[@]}"

# ---- Nothing pinned. ----
for command in status services flows; do
	refused "$command of nothing" "no Sluice at $PINS" "$SLUICE" "$command" --pins "$PINS"
done
refused "backends of nothing" "no Sluice at $PINS" "$SLUICE" backends default/web --pins "$PINS"

# ---- Beside a running agent. ----
"${START[@]}" >"$WORK/log" 2>&1 &
AGENT=$!
for ((i = 0; i < 200; i++)); do
	! curl -sf -o "$WORK/health" http://127.0.0.1:10256/healthz || break
	kill -0 "$AGENT" || { cat "$WORK/log" && die "the agent did not start"; }
	sleep 0.1
done
refused "REL-40: a second agent" "another agent (pid $AGENT)" "${START[@]}"
with --pins "$PINS-2"
refused "a port in use" "cannot listen on 127.0.0.1:10256" "${CHANGED[@]}" --bind-address-hard-fail
refused "backends of no service" "'default/absent'" "$SLUICE" backends default/absent --pins "$PINS"
[[ $("$SLUICE" status --pins "$PINS" -o json | jq .agent.pid) == "$AGENT" ]] || die "the agent is gone"
open=$(find "$PINS" -type d ! -perm 700)
[[ -z $open ]] || die "REL-56: not for root alone: $open"
printf "what is refused beside a running agent does not touch it\n"
