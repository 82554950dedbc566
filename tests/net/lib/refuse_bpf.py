# SPDX-License-Identifier: Apache-2.0
"""Runs a command with a seccomp filter that makes bpf() return an error. usage: refuse_bpf.py EPERM|ENOSYS COMMAND..."""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": 321, "aarch64": 280}  # of bpf(2)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def refuse(code):
    lines = b"".join(struct.pack("HBBI", *line) for line in [
        (LOAD_NUMBER, 0, 0, 0),
        (IF_EQUAL, 0, 1, NUMBERS[platform.machine()]),
        (RETURN, 0, 0, ERRNO | code),
        (RETURN, 0, 0, ALLOW)])
    text = ctypes.create_string_buffer(lines)
    program = Program(4, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) != 0:
        sys.exit(f"cannot set a seccomp filter: {os.strerror(ctypes.get_errno())}")


refuse(getattr(errno, sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
