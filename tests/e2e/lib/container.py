# SPDX-License-Identifier: Apache-2.0
"""Runs a command as a container runtime does: in an image's root, read-only, with given mounts and capabilities.

usage: container.py ROOT CAPABILITIES [--mount SOURCE:TARGET[:ro][:slave]]... -- COMMAND...
CAPABILITIES: names as in a Pod's securityContext, separated by commas. Namespaces (except the mount namespace), cgroup and
environment are the caller's. Later mounts of the host appear in a mount that is a slave (Kubernetes' HostToContainer)."""

import ctypes
import os
import sys

CAPABILITIES = {"DAC_READ_SEARCH": 2, "NET_ADMIN": 12, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38, "BPF": 39}
LAST_CAPABILITY = int(open("/proc/sys/kernel/cap_last_cap").read())
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 1, 32, 4096, 16384, 1 << 18, 1 << 19
CLONE_NEWNS = 0x20000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
libc = ctypes.CDLL(None, use_errno=True)


def checked(code, what):
    if code != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, flags):
    checked(libc.mount(source.encode() if source else None, target.encode(), None, flags, None), f"mounting {target}")


def mounted(root, words):
    """Mounts the image and the pod's volumes; then makes the image read-only."""
    mount(root, root, MS_BIND)
    for source, target, *options in words:
        place = root + target
        os.makedirs(place, exist_ok=True)
        mount(source, place, MS_BIND | MS_REC)
        if "slave" not in options:
            mount(None, place, MS_REC | MS_PRIVATE)
        if "ro" in options:
            mount(None, place, MS_REMOUNT | MS_BIND | MS_RDONLY)
    mount(None, root, MS_REMOUNT | MS_BIND | MS_RDONLY)


def main():
    split = sys.argv.index("--")
    root, names, *rest = sys.argv[1:split]
    command = sys.argv[split + 1:]
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    mount(None, "/", MS_REC | MS_SLAVE)
    mounted(root, [rest[at + 1].split(":") for at in range(0, len(rest), 2)])
    os.chroot(root)
    os.chdir("/")
    kept = {CAPABILITIES[name] for name in names.split(",")}
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in kept:
            checked(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "dropping a capability")
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    os.execv(command[0], command)


main()
