// SPDX-License-Identifier: Apache-2.0
// rtnetlink's reports of devices and addresses as bytes, and their interpretation.
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "agent/netlink/filters.hpp"
#include "agent/netlink/node_network.hpp"
#include "tests/lib/seed.hpp"
#include "tests/unit/netlink/rtnetlink_messages.hpp"

namespace lb::agent {

using namespace rtnetlink_test;

TEST_CASE("two lists make a node, devices first") {
  RtnetlinkDump talk;
  talk.begin();
  CHECK(asked_type(talk) == RTM_GETLINK);
  CHECK(talk.receive(device(RTM_NEWLINK, 2, "eth0", 9000)) == Next::wait);
  CHECK(finish(talk) == Next::send);
  CHECK(asked_type(talk) == RTM_GETADDR);
  CHECK(talk.receive(address(RTM_NEWADDR, {2, "192.0.2.1"})) == Next::wait);
  CHECK(finish(talk) == Next::notify);
  const NetDevice expected{"eth0", DevicePower::up, 9000, {2, 0, 0, 0, 0, 1}};
  CHECK(talk.network().devices().at(2) == expected);
  CHECK(texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS) == Texts{"192.0.2.1"});
}

TEST_CASE("changes are reported, repetitions are not") {
  auto talk = node_with({{2, "192.0.2.1"}});
  CHECK(talk.receive(address(RTM_NEWADDR, {2, "192.0.2.1"})) == Next::wait);
  CHECK(talk.receive(device(RTM_NEWLINK, 2, "eth0")) == Next::wait);
  CHECK(talk.receive(address(RTM_NEWADDR, {2, "192.0.2.2"})) == Next::notify);
  CHECK(talk.receive(device(RTM_NEWLINK, 2, "wan0")) == Next::notify);
  CHECK(talk.receive(address(RTM_DELADDR, {2, "192.0.2.1"})) == Next::notify);
  CHECK(talk.receive(address(RTM_DELADDR, {2, "192.0.2.1"})) == Next::wait);
  CHECK(texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS) == Texts{"192.0.2.2"});
}

TEST_CASE("where a device's other end is, is reported") {
  auto talk = node_with({});
  Bytes body;
  ifinfomsg head{};
  head.ifi_index = 7;
  append(body, head);
  attribute(body, IFLA_IFNAME, "veth7", 6);
  const std::int32_t space = 3;
  attribute(body, IFLA_LINK_NETNSID, &space, sizeof(space));
  CHECK(talk.receive(message(RTM_NEWLINK, body)) == Next::notify);
  CHECK(talk.network().devices().at(7).peer_netns == space);
  CHECK(talk.network().devices().at(2).peer_netns == std::nullopt);
}

TEST_CASE("a bond's ports are known, and which of them are in use") {
  auto talk = node_with({});
  const auto port = [&](const char* kind, std::uint8_t state) {
    Bytes data;
    attribute(data, IFLA_BOND_SLAVE_STATE, &state, sizeof(state));
    Bytes info;
    attribute(info, IFLA_INFO_SLAVE_KIND, kind, std::strlen(kind) + 1);
    attribute(info, IFLA_INFO_SLAVE_DATA, data.data(), data.size());
    Bytes body;
    ifinfomsg head{};
    head.ifi_index = 7;
    append(body, head);
    attribute(body, IFLA_IFNAME, "below0", 7);
    attribute(body, IFLA_LINKINFO, info.data(), info.size());
    static_cast<void>(talk.receive(message(RTM_NEWLINK, body)));
    return talk.network().devices().at(7).bond_port;
  };
  CHECK(port("bond", 0) == BondPort::active);
  CHECK(port("bond", 1) == BondPort::waiting);
  CHECK(port("bridge", 0) == BondPort::none);
  CHECK(talk.network().devices().at(2).bond_port == BondPort::none);
}

TEST_CASE("REL-68 filters that go, and those that come where ours are, are counted") {
  auto talk = node_with({});
  const auto rises = [&](std::uint16_t type, std::uint32_t handle) {
    const auto before = talk.network().filter_changes();
    Bytes body;
    tcmsg filter{};
    filter.tcm_handle = handle;
    append(body, filter);
    CHECK(talk.receive(message(type, body)) == Next::wait);
    return talk.network().filter_changes() - before;
  };
  CHECK(rises(RTM_DELTFILTER, 1) == 1);
  CHECK(rises(RTM_DELQDISC, 0) == 1);
  CHECK(rises(RTM_NEWTFILTER, 0x6c61) == 0);
  CHECK(rises(RTM_NEWTFILTER, 0x6c62) == 1);
  CHECK(rises(RTM_NEWTFILTER, 0x6c69) == 1);
  CHECK(rises(RTM_NEWTFILTER, 0x6c6a) == 0);
  CHECK(rises(RTM_NEWTFILTER, filter_handles_of("/sys/fs/bpf/sluice").first) == 1);
  CHECK(talk.receive(message(RTM_NEWTFILTER, Bytes(4))) == Next::wait);
}

TEST_CASE("a device takes its addresses along") {
  auto talk = node_with({{2, "192.0.2.1"}, {4, "192.0.2.9"}});
  CHECK(talk.receive(device(RTM_DELLINK, 2, "eth0")) == Next::notify);
  CHECK_FALSE(talk.network().devices().contains(2));
  CHECK(texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS) == Texts{"192.0.2.9"});
}

TEST_CASE("a bridge that lets a port go does not take the device away") {
  auto talk = node_with({});
  CHECK(talk.receive(device(RTM_DELLINK, 2, "eth0", 1500, AF_BRIDGE)) == Next::wait);
  CHECK(talk.network().devices().contains(2));
}

TEST_CASE("an address counts while it is the node's") {
  auto talk = node_with({{2, "2001:db8::1", IFA_F_TENTATIVE},
                         {2, "2001:db8::2", IFA_F_TENTATIVE | IFA_F_OPTIMISTIC},
                         {2, "2001:db8::3", IFA_F_DADFAILED},
                         {2, "2001:db8::4", IFA_F_DEPRECATED}});
  const auto served = [&] { return texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS); };
  CHECK(served() == Texts{"2001:db8::2", "2001:db8::4"});
  CHECK(talk.receive(address(RTM_NEWADDR, {2, "2001:db8::1"})) == Next::notify);
  CHECK(served() == Texts{"2001:db8::1", "2001:db8::2", "2001:db8::4"});
  CHECK(talk.receive(address(RTM_NEWADDR, {2, "2001:db8::2", IFA_F_DADFAILED})) == Next::notify);
  CHECK(served() == Texts{"2001:db8::1", "2001:db8::4"});
}

TEST_CASE(
    "REL-121 the broadcast addresses of the node's subnets are known, of both kinds, while it has them") {
  const auto of = [](const std::vector<k8s::Address>& addresses) {
    Texts list;
    list.reserve(addresses.size());
    for (const auto& each : addresses) {
      list.push_back(each.text());
    }
    return list;
  };
  auto talk = node_with({{1, "127.0.0.1", 0, RT_SCOPE_HOST, nullptr, 8},
                         {2, "192.0.2.1", 0, RT_SCOPE_UNIVERSE, nullptr, 24, "192.0.2.255"},
                         {2, "192.0.2.2", 0, RT_SCOPE_UNIVERSE, nullptr, 24},
                         {2, "198.51.100.130", 0, RT_SCOPE_UNIVERSE, nullptr, 26, "198.51.100.150"},
                         {4, "203.0.113.1", 0, RT_SCOPE_UNIVERSE, nullptr, 31},
                         {4, "203.0.113.4", 0, RT_SCOPE_UNIVERSE, nullptr, 32, "255.255.255.255"},
                         {4, "10.9.0.1", 0, RT_SCOPE_UNIVERSE, "10.8.0.9", 30},
                         {4, "2001:db8::1", 0, RT_SCOPE_UNIVERSE, nullptr, 64}});
  CHECK(of(talk.network().broadcasts()) ==
        Texts{"10.8.0.11", "127.255.255.255", "192.0.2.255", "198.51.100.150", "198.51.100.191"});
  CHECK(talk.receive(address(RTM_DELADDR, {2, "192.0.2.1", 0, RT_SCOPE_UNIVERSE, nullptr, 24,
                                           "192.0.2.255"})) == Next::notify);
  CHECK(talk.receive(address(RTM_DELADDR, {4, "10.9.0.1", 0, RT_SCOPE_UNIVERSE, "10.8.0.9", 30})) ==
        Next::notify);
  CHECK(of(talk.network().broadcasts()) ==
        Texts{"127.255.255.255", "192.0.2.255", "198.51.100.150", "198.51.100.191"});
}

TEST_CASE("of a point-to-point device the node has the near end") {
  const auto talk = node_with({{2, "192.0.2.1", 0, RT_SCOPE_UNIVERSE, "192.0.2.2"}});
  CHECK(texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS) == Texts{"192.0.2.1"});
}

TEST_CASE("SEM-34 an address is the node's until its device has no entry of it any more") {
  struct Row {
    const char* name;
    AddressSpec first;
    AddressSpec second;
  };
  const std::vector<Row> rows = {
      {"two prefix lengths",
       {2, "10.0.0.5", 0, RT_SCOPE_UNIVERSE, nullptr, 24},
       {2, "10.0.0.5", IFA_F_SECONDARY, RT_SCOPE_UNIVERSE, nullptr, 20}},
      {"two peers",
       {2, "10.0.0.5", 0, RT_SCOPE_UNIVERSE, "192.0.2.1", 32},
       {2, "10.0.0.5", 0, RT_SCOPE_UNIVERSE, "192.0.2.2", 32}},
      {"two devices", {2, "2001:db8::5"}, {4, "2001:db8::5"}},
  };
  const auto& row = GENERATE_REF(from_range(rows));
  INFO(row.name);
  auto talk = node_with({row.first, row.second});
  const auto served = [&] { return texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS); };
  CHECK(served().size() == 1);
  CHECK(talk.network().links().at(2).addresses.size() == 1);
  CHECK(talk.receive(address(RTM_DELADDR, row.first)) == Next::notify);
  CHECK(served() == Texts{row.first.text});
  CHECK(talk.receive(address(RTM_DELADDR, row.second)) == Next::notify);
  CHECK(served().empty());
}

// The kernel has each IPv6 address once a device, and may change its peer.
TEST_CASE("an IPv6 address with another peer is the same address") {
  auto talk = node_with({{2, "2001:db8::1", 0, RT_SCOPE_UNIVERSE, "2001:db8::2", 128}});
  const AddressSpec changed{2, "2001:db8::1", 0, RT_SCOPE_UNIVERSE, "2001:db8::3", 128};
  CHECK(talk.receive(address(RTM_NEWADDR, changed)) == Next::wait);
  CHECK(talk.receive(address(RTM_DELADDR, changed)) == Next::notify);
  CHECK(talk.network().addresses({}, {}).empty());
}

TEST_CASE("what is lost is asked for again") {
  auto talk = node_with({{2, "192.0.2.1"}});
  const auto old_sequence = asked_sequence(talk);
  SECTION("the socket overran") { talk.begin(); }
  SECTION("the kernel says so") { CHECK(talk.receive(message(NLMSG_OVERRUN, {})) == Next::send); }
  CHECK(asked_type(talk) == RTM_GETLINK);
  CHECK(talk.network().devices().empty());
  // The end of the abandoned dump is ignored.
  CHECK(talk.receive(message(NLMSG_DONE, Bytes(4), old_sequence)) == Next::wait);
  CHECK(asked_type(talk) == RTM_GETLINK);
  CHECK(finish(talk) == Next::send);
  CHECK(finish(talk) == Next::notify);
}

TEST_CASE("a list that changed while it was made is asked for again") {
  RtnetlinkDump talk;
  talk.begin();
  Bytes interrupted = device(RTM_NEWLINK, 2, "eth0");
  nlmsghdr head{};
  std::memcpy(&head, interrupted.data(), sizeof(head));
  head.nlmsg_flags = NLM_F_DUMP_INTR;
  head.nlmsg_seq = asked_sequence(talk);
  std::memcpy(interrupted.data(), &head, sizeof(head));
  CHECK(talk.receive(interrupted) == Next::send);
  CHECK(talk.network().devices().empty());
}

TEST_CASE("SEM-34 which addresses serve node ports") {
  const std::vector<AddressSpec> addresses = {{1, "127.0.0.1", 0, RT_SCOPE_HOST},
                                              {1, "::1", 0, RT_SCOPE_HOST},
                                              {2, "192.0.2.1"},
                                              {2, "2001:db8::1"},
                                              {2, "fe80::1", 0, RT_SCOPE_LINK},
                                              {2, "169.254.20.10", 0, RT_SCOPE_LINK},
                                              {3, "10.96.0.1"},
                                              {5, "10.96.0.2", 0, RT_SCOPE_LINK},
                                              {4, "198.51.100.1"},
                                              {4, "192.0.2.1"}};
  struct Row {
    const char* name;
    NodePortScope scope;
    std::vector<const char*> list;  // prefixes, or the node's primary addresses
    Texts served;
    Texts local;
  };
  const std::vector<Row> rows = {
      {"all: everything but link-local, localhost for sockets",
       NodePortScope::all,
       {},
       {"192.0.2.1", "198.51.100.1", "2001:db8::1"},
       {"::1", "127.0.0.1"}},
      {"ranges of both families",
       NodePortScope::ranges,
       {"192.0.2.0/24", "2001:db8::/32"},
       {"192.0.2.1", "2001:db8::1"},
       {}},
      {"ranges of IPv4 alone leave IPv6 as it was",
       NodePortScope::ranges,
       {"198.51.100.0/24"},
       {"198.51.100.1", "2001:db8::1"},
       {"::1"}},
      {"ranges that hold localhost and a link-local address",
       NodePortScope::ranges,
       {"127.0.0.0/8", "169.254.0.0/16", "fe80::/10"},
       {"169.254.20.10", "fe80::1"},
       {"127.0.0.1"}},
      {"primary: the Node's own",
       NodePortScope::primary,
       {"192.0.2.1", "2001:db8::1"},
       {"192.0.2.1", "2001:db8::1"},
       {}},
      {"primary, unknown for IPv6: all of that family",
       NodePortScope::primary,
       {"198.51.100.1"},
       {"198.51.100.1", "2001:db8::1"},
       {}},
  };
  const auto& row = GENERATE_REF(from_range(rows));
  INFO(row.name);
  NodePortAddresses asked{row.scope, {}};
  std::vector<k8s::Address> primary;
  if (row.scope == NodePortScope::primary) {
    primary = parsed(row.list);
  } else {
    for (const auto* range : row.list) {
      asked.ranges.push_back(*k8s::Prefix::parse(range));
    }
  }
  const auto talk = node_with(addresses);
  const auto found = talk.network().addresses(asked, primary);
  CHECK(texts(found, LB_NODE_PORT_ADDRESS) == row.served);
  CHECK(texts(found, LB_LOOPBACK_ADDRESS) == row.local);
  CHECK(found.size() == 7);  // each address once, and none of kube-ipvs0 and kube-dummy-if
}

TEST_CASE("the source towards other nodes is the first uplink's own address") {
  const auto talk = node_with({{2, "192.0.2.7", IFA_F_SECONDARY},
                               {2, "fe80::1", 0, RT_SCOPE_LINK},
                               {4, "198.51.100.1"},
                               {4, "2001:db8::9", IFA_F_DEPRECATED},
                               {4, "2001:db8::4"}});
  const auto sources = talk.network().sources({"eth0", "eth1"});
  CHECK(sources.ipv4.text() == "198.51.100.1");
  CHECK(sources.ipv6.text() == "2001:db8::4");
  CHECK(talk.network().sources({"eth0"}) == Sources{});
}

TEST_CASE("no bytes confuse it") {
  const auto whole = [] {
    Bytes bytes = device(RTM_NEWLINK, 2, "eth0");
    const auto more = address(RTM_NEWADDR, {2, "192.0.2.1"});
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes;
  }();

  SECTION("cut anywhere") {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      RtnetlinkDump talk;
      talk.begin();
      // A separate copy, so that a sanitizer detects a read past the end.
      CHECK(talk.receive(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))) ==
            Next::wait);
    }
  }
  SECTION("any byte changed to anything") {
    const auto seed = test::seed();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 20'000; ++round) {
      auto bytes = whole;
      for (int change = 0; change < 3; ++change) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      }
      RtnetlinkDump talk;
      talk.begin();
      static_cast<void>(talk.receive(bytes));
      CHECK(talk.network().devices().size() <= 2);
    }
  }
}

}  // namespace lb::agent
