# SPDX-License-Identifier: Apache-2.0
"""Makes a pair of netkit devices, which iproute2 before 6.8 cannot. usage: netkit.py NAME PEER l2|l3"""

import os
import socket
import struct
import sys

RTM_NEWLINK, NLMSG_ERROR = 16, 2
NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE = 1, 4, 0x200, 0x400
IFLA_IFNAME, IFLA_LINKINFO, IFLA_INFO_KIND, IFLA_INFO_DATA = 3, 18, 1, 2
IFLA_NETKIT_PEER_INFO, IFLA_NETKIT_MODE = 1, 5
MODES = {"l2": 0, "l3": 1}
IFINFOMSG = bytes(16)


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def name(text):
    return attribute(IFLA_IFNAME, text.encode() + b"\0")


def main():
    own, peer, mode = sys.argv[1:]
    data = attribute(IFLA_NETKIT_PEER_INFO, IFINFOMSG + name(peer)) + attribute(IFLA_NETKIT_MODE, struct.pack("=I", MODES[mode]))
    body = IFINFOMSG + name(own) + attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"netkit\0") + attribute(IFLA_INFO_DATA, data))
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL | NLM_F_CREATE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, flags, 1, 0) + body)
        answer = kernel.recv(1 << 16)
    _, kind, _, _, _, error = struct.unpack("=IHHIIi", answer[:20])
    if kind != NLMSG_ERROR or error != 0:
        sys.exit(f"cannot make {own}: {os.strerror(-error)}")


main()
