#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An agent starts and serves by sockets, tc and XDP on a kernel with the strictest settings that permit it: lockdown
# (integrity, then confidentiality), JIT hardening for all users, no bpf() for unprivileged users, cgroup v1 beside v2 and (if
# there is TCX) no clsact. check.sh tests kernels on which the agent refuses to start.
# guest: VM_CPUS=1
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# hybrid: mounts both cgroup versions as systemd's hybrid mode does.
hybrid() {
	umount /sys/fs/cgroup
	mount -t tmpfs none /sys/fs/cgroup
	mkdir /sys/fs/cgroup/{pids,unified}
	mount -t cgroup -o none,name=old none /sys/fs/cgroup/pids
	mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
}

# lock_down MODE: sets the lockdown mode, which cannot be undone.
lock_down() {
	mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security
	echo "$1" >/sys/kernel/security/lockdown
	grep -q "\[$1\]" /sys/kernel/security/lockdown || die "not in lockdown: $(</sys/kernel/security/lockdown)"
}

# Under lockdown no module can be loaded: the modules of Debian's unsigned kernels have no signatures.
modprobe -a veth bridge nf_conntrack
[[ $KERNEL != 6.1 ]] || modprobe -a sch_ingress cls_bpf
hybrid
sysctl -qw net.core.bpf_jit_harden=2 kernel.unprivileged_bpf_disabled=1
lock_down integrity
up bad_kernel off
served "lockdown integrity"
lab_stop "$LAB_AGENT" || true
lock_down confidentiality
lab_offload off
lab_agent --pod-devices pod --xdp native
served "lockdown confidentiality, XDP"
counted new_remote new_from_pod flow_redirect socket_translated
