#!/usr/bin/env python3
"""Records the kernel's dump of kube-proxy's rules in this network namespace, for tests/unit/netlink: nf_tables' messages as received (each
with its nlmsghdr, concatenated), the legacy tables as struct ipt_getinfo followed by their entries, IPVS's messages likewise.

usage: record_rules.py nf FAMILY TABLE... FILE          FAMILY: ip or ip6
       record_rules.py legacy FAMILY TABLE FILE
       record_rules.py ipvs FILE"""

import ctypes
import socket
import struct
import sys

NETLINK_GENERIC, NETLINK_NETFILTER = 16, 12
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NFNL_SUBSYS_NFTABLES = 10
GETRULE, GETSET, NEWSET, GETSETELEM = 7, 10, 9, 13
FAMILIES = {"ip": (2, socket.AF_INET, socket.IPPROTO_IP), "ip6": (10, socket.AF_INET6, socket.IPPROTO_IPV6)}


def attribute(kind, content):
    return struct.pack("HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("HH", data)
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def dump(sock, kind, body):
    """All messages of one dump, each with its nlmsghdr."""
    sock.send(struct.pack("IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
    messages = []
    while True:
        data = sock.recv(1 << 20)
        while data:
            length, kind = struct.unpack_from("IH", data)
            if kind == NLMSG_DONE:
                return messages
            if kind == NLMSG_ERROR:
                raise OSError(-struct.unpack_from("i", data, 16)[0], "the kernel refuses")
            messages.append(data[:length])
            data = data[(length + 3) & ~3 :]


def record_nf(family, tables):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    head = struct.pack("BBH", FAMILIES[family][0], 0, 0)
    messages = []
    for name in tables:
        table = name.encode() + b"\0"
        messages += dump(sock, NFNL_SUBSYS_NFTABLES << 8 | GETRULE, head + attribute(1, table))
        sets = dump(sock, NFNL_SUBSYS_NFTABLES << 8 | GETSET, head + attribute(1, table))
        messages += sets
        for each in sets:
            wanted = head + attribute(1, table) + attribute(2, dict(attributes(each[20:]))[2])
            messages += dump(sock, NFNL_SUBSYS_NFTABLES << 8 | GETSETELEM, wanted)
    return b"".join(each + bytes(-len(each) % 4) for each in messages)


def record_legacy(family, table):
    _, domain, level = FAMILIES[family]
    sock = socket.socket(domain, socket.SOCK_DGRAM)
    libc = ctypes.CDLL(None, use_errno=True)

    def get_option(option, buffer):
        size = ctypes.c_uint(len(buffer))
        if libc.getsockopt(sock.fileno(), level, option, buffer, ctypes.byref(size)):
            raise OSError(ctypes.get_errno(), "the kernel refuses")
        return buffer.raw

    info = get_option(64, ctypes.create_string_buffer(table.encode(), 84))
    size = struct.unpack_from("I", info, 80)[0]
    request = struct.pack("32sI4x", table.encode(), size) + bytes(size)
    return info + get_option(65, ctypes.create_string_buffer(request, len(request)))[40:]


def record_ipvs():
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    sock.send(struct.pack("IHHII", 32, 16, NLM_F_REQUEST, 1, 0) + struct.pack("BBH", 3, 1, 0) + attribute(2, b"IPVS\0"))
    family = struct.unpack("H", dict(attributes(sock.recv(65536)[20:]))[1])[0]
    head = struct.pack("BBH", 4, 1, 0)  # IPVS_CMD_GET_SERVICE
    services = dump(sock, family, head)
    messages = []
    for each in services:
        wanted = struct.pack("BBH", 8, 1, 0) + attribute(1 | 0x8000, dict(attributes(each[20:]))[1])
        messages += [each, *dump(sock, family, wanted)]
    return b"".join(each + bytes(-len(each) % 4) for each in messages)


def main():
    what, *rest, file = sys.argv[1:]
    if what == "nf":
        data = record_nf(rest[0], rest[1:])
    else:
        data = record_legacy(*rest) if what == "legacy" else record_ipvs()
    with open(file, "wb") as out:
        out.write(data)


if __name__ == "__main__":
    main()
