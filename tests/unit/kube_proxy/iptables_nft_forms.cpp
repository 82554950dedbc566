// SPDX-License-Identifier: Apache-2.0
// The same rule in each form in which some version of iptables-nft or nft writes it, or may.
#include <endian.h>
#include <fmt/format.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "agent/kube_proxy/iptables_rules.hpp"
#include "agent/netlink/netfilter.hpp"
#include "k8s/objects/host_port.hpp"

namespace {

using namespace lb::agent;
using netlink::Request;
using Bytes = std::vector<std::byte>;

/// One expression: adds itself to a list.
using Part = std::function<void(Request&)>;

Part part(const char* name, std::function<void(Request&)> content) {
  return [name, content = std::move(content)](Request& list) {
    list.nest(NFTA_LIST_ELEM, [&](Request& each) {
      each.add(NFTA_EXPR_NAME, name);
      each.nest(NFTA_EXPR_DATA, content);
    });
  };
}

Bytes bytes(std::initializer_list<int> values) {
  Bytes made;
  for (const int each : values) {
    made.push_back(static_cast<std::byte>(each));
  }
  return made;
}

constexpr std::uint32_t reg1 = NFT_REG_1;

Part payload(std::uint32_t base, std::uint32_t offset, std::uint32_t size, std::uint32_t into = reg1) {
  return part("payload", [=](Request& to) {
    to.add_network_order(NFTA_PAYLOAD_DREG, into);
    to.add_network_order(NFTA_PAYLOAD_BASE, base);
    to.add_network_order(NFTA_PAYLOAD_OFFSET, offset);
    to.add_network_order(NFTA_PAYLOAD_LEN, size);
  });
}

Part network(std::uint32_t offset, std::uint32_t size, std::uint32_t into = reg1) {
  return payload(NFT_PAYLOAD_NETWORK_HEADER, offset, size, into);
}
Part transport(std::uint32_t offset, std::uint32_t size) {
  return payload(NFT_PAYLOAD_TRANSPORT_HEADER, offset, size);
}

Part meta(std::uint32_t key) {
  return part("meta", [=](Request& to) {
    to.add_network_order(NFTA_META_DREG, reg1);
    to.add_network_order(NFTA_META_KEY, key);
  });
}

Part compare(std::uint32_t operation, const Bytes& value, std::uint32_t from = reg1) {
  return part("cmp", [=](Request& to) {
    to.add_network_order(NFTA_CMP_SREG, from);
    to.add_network_order(NFTA_CMP_OP, operation);
    to.nest(NFTA_CMP_DATA, [&](Request& data) { data.add_bytes(NFTA_DATA_VALUE, value); });
  });
}

Part equals(const Bytes& value, std::uint32_t from = reg1) { return compare(NFT_CMP_EQ, value, from); }

Part masked(const Bytes& mask, const Bytes& flip) {
  return part("bitwise", [=](Request& to) {
    to.add_network_order(NFTA_BITWISE_SREG, reg1);
    to.add_network_order(NFTA_BITWISE_DREG, reg1);
    to.add_network_order(NFTA_BITWISE_LEN, static_cast<std::uint32_t>(mask.size()));
    to.nest(NFTA_BITWISE_MASK, [&](Request& data) { data.add_bytes(NFTA_DATA_VALUE, mask); });
    to.nest(NFTA_BITWISE_XOR, [&](Request& data) { data.add_bytes(NFTA_DATA_VALUE, flip); });
  });
}

Part match(const char* name, std::uint32_t revision, const Bytes& info) {
  return part("match", [=](Request& to) {
    to.add(NFTA_MATCH_NAME, name);
    to.add_network_order(NFTA_MATCH_REV, revision);
    to.add_bytes(NFTA_MATCH_INFO, info);
  });
}

template <class Info>
Bytes info_of(const Info& info) {
  const auto all = std::as_bytes(std::span(&info, 1));
  return {all.begin(), all.end()};
}

Part other(const char* name) {
  return part(name, [](Request&) {});
}

Part jump(const std::string& chain) {
  return part("immediate", [=](Request& to) {
    to.add_network_order(NFTA_IMMEDIATE_DREG, std::uint32_t{NFT_REG_VERDICT});
    to.nest(NFTA_IMMEDIATE_DATA, [&](Request& data) {
      data.nest(NFTA_DATA_VERDICT, [&](Request& verdict) {
        verdict.add_network_order(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(NFT_JUMP));
        verdict.add(NFTA_VERDICT_CHAIN, chain);
      });
    });
  });
}

using Parts = std::vector<Part>;

/// The rule as read from the kernel's message; `userdata` is the rule's.
IptablesRule read(const Parts& parts, int family = AF_INET, const Bytes& userdata = {}) {
  nfgenmsg head{};
  Request request(NFNL_SUBSYS_NFTABLES << 8U | NFT_MSG_NEWRULE, netlink::Wanted::nothing, head);
  request.add(NFTA_RULE_TABLE, "nat").add(NFTA_RULE_CHAIN, "KUBE-SERVICES");
  request.nest(NFTA_RULE_EXPRESSIONS, [&](Request& list) {
    for (const auto& each : parts) {
      each(list);
    }
  });
  if (!userdata.empty()) {
    request.add_bytes(NFTA_RULE_USERDATA, userdata);
  }
  const auto message = request.bytes();
  NfDump dump("nat");
  dump.take(*netlink::read<nlmsghdr>(message), message.subspan(sizeof(nlmsghdr)));
  return nft_iptables_rules(dump, family).at(0);
}

/// "tcp 10.96.0.80:80 KUBE-SVC-A", or what is not understood.
std::string text(const IptablesRule& rule) {
  if (!rule.unread.empty()) {
    return "not understood: " + rule.unread;
  }
  using Destination = IptablesRule::Destination;
  std::string text = rule.protocol == LB_TCP ? "tcp" : rule.protocol == LB_UDP ? "udp" : "any";
  const auto address = rule.match == Destination::any     ? "any"
                       : rule.match == Destination::range ? "range"
                                                          : rule.destination.text();
  text += " " + address;
  for (const auto port : rule.ports) {
    text += fmt::format(":{}", port);
  }
  return text + (rule.clients == RuleClients::inside ? " inside " : " ") + rule.target;
}

const Bytes address = bytes({10, 96, 0, 80});
const Bytes tcp = bytes({6});
const Bytes port80 = bytes({0, 80});
constexpr auto wanted = "tcp 10.96.0.80:80 KUBE-SVC-A";

}  // namespace

TEST_CASE("REL-165: the address, the protocol and the port in each order, and from packet or metadata") {
  const Parts from_packet = {network(9, 1), equals(tcp)};
  const Parts from_metadata = {meta(NFT_META_L4PROTO), equals(tcp)};
  const Parts to = {network(16, 4), equals(address)};
  const Parts at = {transport(2, 2), equals(port80)};
  for (const auto& protocol : {from_packet, from_metadata}) {
    for (const auto& order :
         {std::vector{protocol, to, at}, {to, protocol, at}, {at, to, protocol}, {to, at, protocol}}) {
      Parts parts;
      for (const auto& each : order) {
        parts.insert(parts.end(), each.begin(), each.end());
      }
      parts.push_back(other("counter"));
      parts.push_back(jump("KUBE-SVC-A"));
      CHECK(text(read(parts)) == wanted);
    }
  }
}

TEST_CASE(
    "REL-165: fields that are loaded in parts, several at once, masked as a whole, or into other registers") {
  const auto end = jump("KUBE-SVC-A");
  const Parts protocol = {meta(NFT_META_L4PROTO), equals(tcp)};
  const auto rule = [&](Parts parts) {
    parts.insert(parts.begin(), protocol.begin(), protocol.end());
    parts.push_back(end);
    return text(read(parts));
  };
  CHECK(rule({network(16, 2), equals(bytes({10, 96})), network(18, 2), equals(bytes({0, 80})),
              transport(2, 2), equals(port80)}) == wanted);
  CHECK(rule({network(16, 4), masked(bytes({255, 255, 255, 255}), bytes({0, 0, 0, 0})), equals(address),
              transport(2, 2), equals(port80)}) == wanted);
  CHECK(rule({network(16, 4, NFT_REG32_05), transport(2, 2), equals(address, NFT_REG32_05),
              equals(port80)}) == wanted);
  // Both are bytes of the same registers.
  CHECK(rule({network(16, 4, NFT_REG_2), equals(address, NFT_REG32_04), transport(2, 2),
              equals(port80, NFT_REG32_00)}) == wanted);
  // From the address of the source on: clients of one address.
  CHECK(rule({network(12, 8), equals(bytes({10, 0, 0, 1, 10, 96, 0, 80})), transport(2, 2),
              equals(port80)}) == "tcp 10.96.0.80:80 inside KUBE-SVC-A");
}

TEST_CASE("REL-165: ports by extensions, of tcp, udp and multiport") {
  const auto end = jump("KUBE-SVC-A");
  const Parts to = {meta(NFT_META_L4PROTO), equals(tcp), network(16, 4), equals(address)};
  const auto rule = [&](const Part& match) {
    auto parts = to;
    parts.push_back(match);
    parts.push_back(end);
    return text(read(parts));
  };
  CHECK(rule(match("tcp", 0, info_of(xt_tcp{{0, 0xffff}, {80, 80}, 0, 0, 0, 0}))) == wanted);
  CHECK(rule(match("udp", 0, info_of(xt_udp{{0, 0xffff}, {80, 80}, 0}))) == wanted);
  CHECK(rule(match("tcp", 0, info_of(xt_tcp{{0, 0xffff}, {80, 90}, 0, 0, 0, 0}))) ==
        "not understood: a range of ports");
  CHECK(rule(match("tcp", 0, info_of(xt_tcp{{0, 0xffff}, {80, 80}, 0, 0, 0, XT_TCP_INV_DSTPT}))) ==
        "not understood: source ports, or ports that are excluded");
  CHECK(rule(match("tcp", 0, info_of(xt_tcp{{0, 0xffff}, {80, 80}, 0, 2, 2, 0}))) ==
        "not understood: TCP's flags or options");
  xt_multiport_v1 several{XT_MULTIPORT_DESTINATION, 2, {80, 443}, {}, 0};
  CHECK(rule(match("multiport", 1, info_of(several))) == "tcp 10.96.0.80:80:443 KUBE-SVC-A");
  several.pflags[0] = 1;
  CHECK(rule(match("multiport", 1, info_of(several))) == "not understood: source ports, or ranges of ports");
  CHECK(rule(match("multiport", 0, info_of(xt_multiport{XT_MULTIPORT_SOURCE, 1, {80}}))) ==
        "not understood: source ports, or ranges of ports");
}

TEST_CASE("REL-165: comments as a match and as user data") {
  const auto name = std::string("default/web:http cluster IP");
  Bytes match_info(256);
  std::memcpy(match_info.data(), name.data(), name.size());
  CHECK(read({match("comment", 0, match_info), jump("KUBE-SVC-A")}).comment == name);
  auto userdata = bytes({0, static_cast<int>(name.size() + 1)});
  for (const char each : name) {
    userdata.push_back(static_cast<std::byte>(each));
  }
  userdata.push_back(std::byte{});
  CHECK(read({jump("KUBE-SVC-A")}, AF_INET, userdata).comment == name);
}

TEST_CASE("REL-165: IPv6's protocol from its header, and its address") {
  const auto to = bytes({0xfd, 0, 0, 0x10, 0, 0x96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80});
  CHECK(text(read({network(6, 1), equals(bytes({17})), network(24, 16), equals(to), transport(2, 2),
                   equals(port80), jump("KUBE-SVC-A")},
                  AF_INET6)) == "udp fd00:10:96::80:80 KUBE-SVC-A");
}

TEST_CASE("REL-165: what is not understood of a rule") {
  const auto rule = [](Parts parts) {
    parts.push_back(jump("KUBE-SVC-A"));
    return text(read(parts));
  };
  CHECK(rule({network(1, 1), equals(bytes({0}))}) == "not understood: byte 1 of the IP header");
  CHECK(rule({transport(0, 2), equals(port80)}) == "not understood: byte 0 of the transport header");
  CHECK(rule({transport(0, 4), equals(bytes({0, 53, 0, 80}))}) ==
        "not understood: byte 0 of the transport header");
  CHECK(rule({transport(2, 2), compare(NFT_CMP_GTE, port80)}) ==
        "not understood: a port that is excluded, or a range of ports");
  CHECK(rule({transport(2, 1), equals(bytes({0}))}) == "not understood: a part of a port");
  CHECK(rule({network(9, 1), compare(NFT_CMP_NEQ, tcp)}) == "not understood: a protocol that is excluded");
  CHECK(rule({network(12, 4), compare(NFT_CMP_NEQ, address)}) == "not understood: clients that are excluded");
  CHECK(rule({meta(NFT_META_MARK), equals(bytes({0, 64, 0, 0}))}) == "not understood: a comparison");
  CHECK(rule({network(16, 4), masked(bytes({255, 255, 255, 255}), bytes({1, 0, 0, 0})), equals(address)}) ==
        "not understood: a comparison");
  CHECK(rule({equals(address)}) == "not understood: a comparison");
  CHECK(rule({other("quota")}) == "not understood: expression quota");
  CHECK(rule({match("quota", 0, bytes({0}))}) == "not understood: match quota");
}

TEST_CASE("REL-165: ranges of addresses, and addresses that are excluded") {
  const auto rule = [](Parts parts) {
    parts.push_back(jump("KUBE-SVC-A"));
    return text(read(parts));
  };
  CHECK(rule({network(16, 3), equals(bytes({10, 96, 0}))}) == "any range KUBE-SVC-A");
  CHECK(rule({network(16, 4), masked(bytes({255, 255, 240, 0}), bytes({0, 0, 0, 0})),
              equals(bytes({10, 96, 0, 0}))}) == "any range KUBE-SVC-A");
  CHECK(rule({network(16, 4), compare(NFT_CMP_NEQ, address)}) == "any range KUBE-SVC-A");
}

TEST_CASE("REL-165: the node's own addresses by a route look-up, as addrtype") {
  const auto local = [](std::uint32_t flags) {
    return part("fib", [=](Request& to) {
      to.add_network_order(NFTA_FIB_DREG, reg1);
      to.add_network_order(NFTA_FIB_RESULT, std::uint32_t{NFT_FIB_RESULT_ADDRTYPE});
      to.add_network_order(NFTA_FIB_FLAGS, flags);
    });
  };
  CHECK(text(read({local(NFTA_FIB_F_SADDR), equals(bytes({RTN_LOCAL, 0, 0, 0})), jump("KUBE-SVC-A")})) ==
        "any any inside KUBE-SVC-A");
  CHECK(text(read({local(NFTA_FIB_F_DADDR), equals(bytes({RTN_LOCAL, 0, 0, 0})), jump("KUBE-SVC-A")})) ==
        "any any KUBE-SVC-A");
  CHECK(text(read({local(NFTA_FIB_F_SADDR), equals(bytes({RTN_UNICAST, 0, 0, 0})), jump("KUBE-SVC-A")})) ==
        "not understood: a type of address");
}
