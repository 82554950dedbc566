#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the kernel's dump of kube-proxy's rules in this network namespace, for tests/unit/kube_proxy: nf_tables' messages as received (each
with its nlmsghdr, concatenated), the legacy tables as struct ipt_getinfo followed by their entries, IPVS's and ipset's messages likewise.
Except for the legacy tables, what differs from run to run and not in meaning is the same in each: handles, sequence numbers, ports and
statistics are left out or zero, chains, sets, elements and servers are sorted, and anonymous sets numbered in the order of their use. So
equal files are equal rules.

usage: record_rules.py nf FAMILY TABLE... FILE          FAMILY: ip or ip6; the rules, the sets, and the elements of maps
       record_rules.py chains FAMILY TABLE... FILE      the chains and the rules
       record_rules.py legacy FAMILY TABLE FILE
       record_rules.py ipvs FILE
       record_rules.py ipset FILE"""

import ctypes
import re
import socket
import struct
import sys

NETLINK_GENERIC, NETLINK_NETFILTER = 16, 12
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NFNL_SUBSYS_IPSET, NFNL_SUBSYS_NFTABLES = 6, 10
IPSET_CMD_LIST = 7
GETCHAIN, GETRULE, GETSET, GETSETELEM = 4, 7, 10, 13
NFT_SET_MAP = 8
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


def joined(messages):
    """The messages in one row, without the sequence number and the port, which each socket has its own of."""
    same = (each[:8] + bytes(8) + each[16:] for each in messages)
    return b"".join(each + bytes(-len(each) % 4) for each in same)


def nested(data, change):
    """The attributes, each with the content that `change` gives for its kind and content, or without it for None."""
    parts = []
    while len(data) >= 4:
        length, kind = struct.unpack_from("HH", data)
        content = change(kind & 0x3FFF, data[4:length])
        if content is not None:
            parts.append(attribute(kind, content))
        data = data[(length + 3) & ~3 :]
    return b"".join(parts)


def rebuilt(message, change):
    """The same of a message with its two headers."""
    body = nested(message[20:], change)
    return struct.pack("I", 20 + len(body)) + message[4:20] + body


def in_order(data):
    """The attributes of a list, sorted."""
    found = []
    while len(data) >= 4:
        size = (struct.unpack_from("H", data)[0] + 3) & ~3
        found.append(data[:size])
        data = data[size:]
    return b"".join(sorted(found))


class NfRecording:
    """One table's messages."""

    def __init__(self, family, table):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.head = struct.pack("BBH", FAMILIES[family][0], 0, 0)
        self.table = table.encode() + b"\0"
        self.names = {}  # of anonymous sets

    def ask(self, kind, more=b""):
        messages = dump(self.sock, NFNL_SUBSYS_NFTABLES << 8 | kind, self.head + attribute(1, self.table) + more)
        # The number of the last transaction is zero. Some kernels list the chains of all tables.
        return [each[:18] + bytes(2) + each[20:] for each in messages if dict(attributes(each[20:]))[1] == self.table]

    def renamed(self, name):
        if not re.fullmatch(rb"__(map|set)\d+\0", name):
            return name
        return self.names.setdefault(name, b"__%s%d\0" % (name[2:5], len(self.names)))

    def expression(self, kind, data):
        # NFTA_EXPR_DATA, in it NFTA_LOOKUP_SET; in other expressions that attribute is no name of such a set.
        return nested(data, lambda kind, data: self.renamed(data)) if kind == 2 else data

    def rule(self, kind, data):
        if kind in (3, 6):  # NFTA_RULE_HANDLE, NFTA_RULE_POSITION
            return None
        if kind == 4:  # NFTA_RULE_EXPRESSIONS
            return nested(data, lambda _, each: nested(each, self.expression))
        return data

    def set(self, kind, data):
        if kind in (16, 19):  # NFTA_SET_HANDLE, NFTA_SET_TYPE: an address in the kernel
            return None
        return self.renamed(data) if kind == 2 else data

    def elements(self, kind, data):
        if kind == 3:  # NFTA_SET_ELEM_LIST_ELEMENTS
            return in_order(data)
        return self.renamed(data) if kind == 2 else data

    def chains(self):
        return sorted(rebuilt(each, lambda kind, data: data if kind != 2 else None) for each in self.ask(GETCHAIN))

    def rules(self):
        rules = sorted(self.ask(GETRULE), key=lambda each: dict(attributes(each[20:]))[2])
        return [rebuilt(each, self.rule) for each in rules]

    def sets(self):
        sets, elements = [], []
        for each in self.ask(GETSET):
            found = dict(attributes(each[20:]))
            sets.append(rebuilt(each, self.set))
            if struct.unpack(">I", found.get(3, bytes(4)))[0] & NFT_SET_MAP:
                elements += [rebuilt(each, self.elements) for each in self.ask(GETSETELEM, attribute(2, found[2]))]
        return [*sorted(sets), *sorted(elements)]


def record_nf(family, *tables):
    recordings = [NfRecording(family, table) for table in tables]
    return joined(message for each in recordings for message in [*each.rules(), *each.sets()])


def record_chains(family, *tables):
    recordings = [NfRecording(family, table) for table in tables]
    return joined(message for each in recordings for message in [*each.chains(), *each.rules()])


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


def without(kinds):
    """Drops attributes of these kinds from the nested ones of a generic message."""
    return lambda _, data: nested(data, lambda kind, data: data if kind not in kinds else None)


def record_ipvs():
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    sock.send(struct.pack("IHHII", 32, 16, NLM_F_REQUEST, 1, 0) + struct.pack("BBH", 3, 1, 0) + attribute(2, b"IPVS\0"))
    family = struct.unpack("H", dict(attributes(sock.recv(65536)[20:]))[1])[0]
    recorded = []
    for each in dump(sock, family, struct.pack("BBH", 4, 1, 0)):  # IPVS_CMD_GET_SERVICE
        wanted = struct.pack("BBH", 8, 1, 0) + attribute(1 | 0x8000, dict(attributes(each[20:]))[1])
        # Without the statistics, and of servers the numbers of connections.
        servers = sorted(rebuilt(each, without((7, 8, 9, 10, 12))) for each in dump(sock, family, wanted))
        recorded.append([rebuilt(each, without((10, 12))), *servers])
    # The family's number is given at run time.
    return joined(each[:4] + struct.pack("H", 16) + each[6:] for service in sorted(recorded) for each in service)


def record_ipset():
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    head = struct.pack("BBH", FAMILIES["ip"][0], 0, 0) + attribute(1, b"\6")

    def change(kind, data):
        if kind in (7, 11):  # IPSET_ATTR_DATA, IPSET_ATTR_INDEX: how it is stored
            return None
        return in_order(data) if kind == 8 else data  # IPSET_ATTR_ADT

    return joined(sorted(rebuilt(each, change) for each in dump(sock, NFNL_SUBSYS_IPSET << 8 | IPSET_CMD_LIST, head)))


RECORDERS = {"nf": record_nf, "chains": record_chains, "legacy": record_legacy, "ipvs": record_ipvs, "ipset": record_ipset}


def main():
    what, *rest, file = sys.argv[1:]
    data = RECORDERS[what](*rest)
    with open(file, "wb") as out:
        out.write(data)


if __name__ == "__main__":
    main()
