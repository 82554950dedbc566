#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the findings of `sluice check` ($SLUICE) in a virtual machine with a distribution's own kernel ($KERNEL, as 6.12):
# on the complete machine, and on one that lacks a requirement. The test may change the machine, which ends with the test
# (REL-95).
# guest: VM_CPUS=1
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SLUICE=${SLUICE:?the agent to run}
KERNEL=${KERNEL:?as 6.12}
WORK=$(mktemp -d)
FAILURES=0
BPFTOOL=$(command -v bpftool)

die() { printf '%s\n' "$*" && exit 1; }

# Mount the usual file systems that are missing.
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security
mkdir "$WORK/manifests"
ip link set lo up
ip link add eth0 type veth peer name peer0
ip link set eth0 up
ip link set peer0 up
ethtool -K peer0 gro on # makes it poll, so that eth0 accepts frames from XDP
# Modules that a machine may lack: they cannot be loaded until the test permits it.
printf 'install sch_ingress /bin/false\ninstall cls_bpf /bin/false\n' >/etc/modprobe.d/sluice-check.conf

# options DEVICES: sets OPTIONS. Without devices the programs of tc and XDP are not loaded. Loading takes most of the time on
# an emulated processor, so checks that do not depend on devices have none.
options() {
	OPTIONS=(--manifests "$WORK/manifests" --node guest --devices "$1" --metrics off --health 127.0.0.1:10256 --max-flows 1024
		--max-unassured 1024)
}
options eth0

# state: prints everything that a check or a failed start could leave behind.
state() {
	find /sys/fs/bpf 2>/dev/null | sort
	cat /proc/self/mounts
	ip -o link show
	tc qdisc show
	tc filter show dev eth0 ingress 2>/dev/null
	for kind in prog map link; do "$BPFTOOL" -j "$kind" list | jq -c '.[] | [.id, .name, .type]'; done
	grep -H . /proc/sys/net/{core/bpf*,netfilter/nf_conntrack_{max,buckets},ipv4/ip_forward,ipv4/conf/eth0/*} 2>/dev/null || true
} 2>&1

# unchanged WHO: checks that the state equals $WORK/before.
unchanged() {
	state >"$WORK/after"
	diff "$WORK/before" "$WORK/after" && return
	printf 'WRONG: %s changed this\n' "$1"
	FAILURES=$((FAILURES + 1))
}

# check: runs `sluice check`; its findings go to $WORK/findings, its exit code to CODE. Checks that it changes nothing.
check() {
	CODE=0
	state >"$WORK/before"
	"$SLUICE" check "${OPTIONS[@]}" -o json >"$WORK/findings" 2>"$WORK/errors" </dev/null || CODE=$?
	jq -e . "$WORK/findings" >/dev/null || { cat "$WORK/findings" "$WORK/errors" && die "no JSON"; }
	unchanged "the check"
}

# find_in SUBJECT: sets VERDICT, FOUND and ADVICE from the last check, by one jq process: processes are slow on an emulated
# processor.
find_in() {
	local finding
	finding=$(jq -r --arg subject "$1" '.findings[] | select(.what == $subject) | .verdict, .found, .advice // ""' "$WORK/findings")
	{ read -r VERDICT && read -r FOUND && read -r ADVICE; } <<<"$finding" || true
}

# found SUBJECT VERDICT WORDS: verifies that the last check has this finding.
found() {
	VERDICT='' FOUND='' ADVICE=''
	find_in "$1"
	if [[ $VERDICT != "$2" || $FOUND != *"$3"* ]]; then
		printf 'WRONG %s: wanted %s, %s; ' "$1" "$2" "$3"
		FAILURES=$((FAILURES + 1))
	fi
	printf '%s: %s: %s%s\n' "$1" "$VERDICT" "$FOUND" "${ADVICE:+: $ADVICE}"
}

# refused SUBJECT WORDS: verifies that the last check reports SUBJECT as missing, and that an agent ends with the same message,
# prints nothing else, and changes nothing either.
refused() {
	local code=0
	found "$1" missing "$2"
	timeout 60 "$SLUICE" agent "${OPTIONS[@]}" >"$WORK/agent" 2>&1 </dev/null || code=$?
	if ((CODE != 1 || code != 1)) || ! grep -qxF "sluice: $FOUND: $ADVICE" "$WORK/agent"; then
		printf 'WRONG: the check ended with %d, the agent with %d: %s\n' "$CODE" "$code" "$(tail -n 2 "$WORK/agent")"
		FAILURES=$((FAILURES + 1))
	fi
	unchanged "the agent that did not start"
}

# ---- The modules cannot be loaded. ----
check
found kernel ok "$KERNEL"
found "bpf()" ok works
found JIT ok compiled
found BTF ok "shows its types"
found lockdown ok none
found cgroup ok "the root of all"
found bpffs ok mounted
found conntrack warning "nf_conntrack is not loaded"
found "feature ct-lookup" warning "absent"
found "feature csum-ipv6" ok present # of 6.16, backported to stable releases, as fib-source is to 6.1
case $KERNEL in
6.1)
	for feature in tcx fib-mark socket-destroy skb-sums; do found "feature $feature" warning absent; done
	for feature in fib-source sock-diag; do found "feature $feature" ok present; done
	found "device eth0" ok "driver veth; the kernel does not say"
	refused tc "the kernel has no qdisc clsact"
	printf 'install cls_bpf /bin/false\n' >/etc/modprobe.d/sluice-check.conf
	check
	refused tc "the kernel has no filter cls_bpf"
	;;
*)
	for feature in tcx fib-source fib-mark socket-destroy skb-sums sock-diag; do found "feature $feature" ok present; done
	found "device eth0" ok "driver veth; XDP: native, redirect, transmit"
	found tc ok TCX
	OPTIONS+=(--without tcx)
	check
	refused tc "the kernel has no qdisc clsact"
	options eth0
	;;
esac

# ---- The modules can be loaded. ----
rm /etc/modprobe.d/sluice-check.conf
modprobe nf_conntrack
check
found conntrack ok "nf_conntrack is loaded"
found "feature ct-lookup" ok present
[[ $KERNEL != 6.1 ]] || found tc ok clsact
for program in lb_tc_in lb_tc_out lb_xdp lb_connect4 lb_connect6 lb_sendmsg4 lb_sendmsg6 lb_recvmsg4 lb_recvmsg6 lb_peername4 lb_peername6; do
	found "program $program" ok "of 1000000 instructions"
done
if ((CODE != 0)) || [[ $(jq .starts "$WORK/findings") != true ]]; then
	printf 'WRONG: the check reports that an agent would not start\n'
	FAILURES=$((FAILURES + 1))
fi

# ---- One requirement after the other is missing. ----
options none
sysctl -qw net.core.bpf_jit_enable=0
check
refused JIT "the kernel interprets programs"
sysctl -qw net.core.bpf_jit_enable=1
sysctl -qw net.core.bpf_jit_harden=2
check
found "JIT hardening" warning "enabled for all users"
sysctl -qw net.core.bpf_jit_harden=0

# A copy of the agent with a program that every verifier refuses, to test the report of this kernel's message.
python3 "$ROOT/tests/net/lib/refused_program.py" "$SLUICE" "$(dirname "$SLUICE")/bpf/lb.o" "$WORK/spoiled" lb_connect4
UNSPOILED=$SLUICE SLUICE=$WORK/spoiled
check
SLUICE=$UNSPOILED
found "program lb_connect4" warning "the kernel refuses the program lb_connect4 (invalid write to stack R10 off=8 size=8); it is left out"
found "program lb_connect6" ok "of 1000000 instructions"
if ((CODE != 0)); then
	printf 'WRONG: the check reports that no agent would start: exit code %d\n' "$CODE"
	FAILURES=$((FAILURES + 1))
fi
rm "$WORK/spoiled"

mount -t tmpfs none /sys/kernel/btf
check
refused BTF "the kernel does not show its types"
umount /sys/kernel/btf

printf '#!/bin/sh\nexec python3 %s EPERM %s "$@"\n' "$ROOT/tests/net/lib/refuse_bpf.py" "$SLUICE" >"$WORK/filtered"
chmod +x "$WORK/filtered"
UNFILTERED=$SLUICE SLUICE=$WORK/filtered
check
refused "bpf()" "a seccomp filter refuses bpf()"
SLUICE=$UNFILTERED

sysctl -qw kernel.unprivileged_bpf_disabled=1
check
found "unprivileged bpf()" ok refused
printf '#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all %s "$@"\n' "$UNFILTERED" >"$WORK/unprivileged"
chmod +x "$WORK/unprivileged"
SLUICE=$WORK/unprivileged
check
refused "bpf()" "lacks CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON"
SLUICE=$UNFILTERED

umount /sys/fs/bpf
check
found bpffs ok "not mounted; the agent mounts it"
! mountpoint -q /sys/fs/bpf || die "a check mounted the bpf file system"
OPTIONS+=(--cluster-secret "$WORK/absent")
check
refused "cluster secret" "$WORK/absent"
! mountpoint -q /sys/fs/bpf || die "a start that failed left the bpf file system mounted"
options none
mount -t bpf bpf /sys/fs/bpf

umount /sys/fs/cgroup
check
refused cgroup "no cgroup v2 file system is mounted"
mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/{pids,unified}
mount -t cgroup -o none,name=old none /sys/fs/cgroup/pids
check
refused cgroup "cgroup v1 alone is mounted"
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
check
found cgroup ok "/sys/fs/cgroup/unified"
found "cgroup versions" ok hybrid

# The last check, because a lockdown cannot be undone. Every program loads under it.
for mode in integrity confidentiality; do
	[[ $mode == integrity ]] || options eth0
	echo "$mode" >/sys/kernel/security/lockdown
	check
	found lockdown ok "$mode"
	jq -r '.findings[] | select(.verdict == "missing") | "\(.what): \(.verdict): \(.found)"' "$WORK/findings"
	((CODE == 0)) || FAILURES=$((FAILURES + 1))
done
rm -rf "$WORK"
printf '%d wrong\n' "$FAILURES"
((FAILURES == 0))
