// rtnetlink messages as bytes: the kernel's reports of devices and addresses, and their interpretation.
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

namespace lb::agent {
namespace {

using Bytes = std::vector<std::byte>;
using Next = RtnetlinkDump::Next;

template <class T>
void append(Bytes& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(value));
}

void pad(Bytes& bytes) { bytes.resize((bytes.size() + 3) / 4 * 4); }

void attribute(Bytes& bytes, unsigned short type, const void* content, std::size_t size) {
  append(bytes, rtattr{static_cast<unsigned short>(sizeof(rtattr) + size), type});
  const auto* from = static_cast<const std::byte*>(content);
  bytes.insert(bytes.end(), from, from + size);
  pad(bytes);
}

Bytes message(std::uint16_t type, const Bytes& body, std::uint32_t sequence = 0, std::uint16_t flags = 0) {
  Bytes bytes;
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(sizeof(head) + body.size());
  head.nlmsg_type = type;
  head.nlmsg_flags = flags;
  head.nlmsg_seq = sequence;
  append(bytes, head);
  bytes.insert(bytes.end(), body.begin(), body.end());
  pad(bytes);
  return bytes;
}

Bytes device(std::uint16_t type, int index, const std::string& name, std::uint32_t mtu = 1500,
             unsigned char family = AF_UNSPEC) {
  Bytes body;
  ifinfomsg head{};
  head.ifi_family = family;
  head.ifi_type = ARPHRD_ETHER;
  head.ifi_index = index;
  head.ifi_flags = IFF_UP;
  append(body, head);
  attribute(body, IFLA_IFNAME, name.c_str(), name.size() + 1);
  attribute(body, IFLA_MTU, &mtu, sizeof(mtu));
  attribute(body, IFLA_ADDRESS, "\x02\x00\x00\x00\x00\x01", 6);
  return message(type, body);
}

struct AddressSpec {
  std::uint32_t device = 0;
  const char* text = nullptr;
  std::uint32_t flags = 0;
  unsigned char scope = RT_SCOPE_UNIVERSE;
  const char* other_end = nullptr;
};

Bytes address(std::uint16_t type, const AddressSpec& spec) {
  const auto parsed = *k8s::Address::parse(spec.text);
  const bool ipv4 = parsed.family() == k8s::Family::ipv4;
  const std::size_t skip = ipv4 ? 12 : 0;
  ifaddrmsg head{};
  head.ifa_family = ipv4 ? AF_INET : AF_INET6;
  head.ifa_scope = spec.scope;
  head.ifa_index = spec.device;
  Bytes body;
  append(body, head);
  const auto other = spec.other_end != nullptr ? *k8s::Address::parse(spec.other_end) : parsed;
  attribute(body, IFA_ADDRESS, other.bytes.data() + skip, 16 - skip);
  if (spec.other_end != nullptr) {
    attribute(body, IFA_LOCAL, parsed.bytes.data() + skip, 16 - skip);
  }
  attribute(body, IFA_FLAGS, &spec.flags, sizeof(spec.flags));
  return message(type, body);
}

std::uint32_t asked_sequence(const RtnetlinkDump& talk) {
  nlmsghdr head{};
  std::memcpy(&head, talk.request().data(), sizeof(head));
  return head.nlmsg_seq;
}

std::uint16_t asked_type(const RtnetlinkDump& talk) {
  nlmsghdr head{};
  std::memcpy(&head, talk.request().data(), sizeof(head));
  return head.nlmsg_type;
}

Next finish(RtnetlinkDump& talk) { return talk.receive(message(NLMSG_DONE, Bytes(4), asked_sequence(talk))); }

/// A node with these addresses; device 1 is lo, 2 is eth0, 3 is kube-ipvs0, 4 is eth1.
RtnetlinkDump node_with(const std::vector<AddressSpec>& addresses) {
  RtnetlinkDump talk;
  talk.begin();
  int index = 0;
  for (const auto* name : {"lo", "eth0", "kube-ipvs0", "eth1"}) {
    REQUIRE(talk.receive(device(RTM_NEWLINK, ++index, name)) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::send);
  for (const auto& spec : addresses) {
    REQUIRE(talk.receive(address(RTM_NEWADDR, spec)) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::notify);
  return talk;
}

std::vector<std::string> texts(const std::vector<NodeAddress>& addresses, lb_address_kind kind) {
  std::vector<std::string> list;
  for (const auto& entry : addresses) {
    if (entry.kind == kind) {
      list.push_back(entry.address.text());
    }
  }
  return list;
}

std::vector<k8s::Address> parsed(const std::vector<const char*>& list) {
  std::vector<k8s::Address> addresses;
  addresses.reserve(list.size());
  for (const auto* text : list) {
    addresses.push_back(*k8s::Address::parse(text));
  }
  return addresses;
}

using Texts = std::vector<std::string>;

}  // namespace

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

TEST_CASE("of a point-to-point device the node has the near end") {
  const auto talk = node_with({{2, "192.0.2.1", 0, RT_SCOPE_UNIVERSE, "192.0.2.2"}});
  CHECK(texts(talk.network().addresses({}, {}), LB_NODE_PORT_ADDRESS) == Texts{"192.0.2.1"});
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
  CHECK(found.size() == 7);  // each address once, and none of kube-ipvs0's
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

// ---- Routes. ----

namespace {

struct RouteSpec {
  const char* destination = nullptr;  ///< null: default
  std::uint32_t device = 0;
  bool gateway = false;
  unsigned char table = RT_TABLE_MAIN;
  unsigned char family = AF_INET;
  unsigned char type = RTN_UNICAST;
};

Bytes route(std::uint16_t type, const RouteSpec& spec, std::uint16_t flags = 0) {
  const bool ipv4 = spec.family == AF_INET;
  rtmsg head{};
  head.rtm_family = spec.family;
  head.rtm_table = spec.table;
  head.rtm_type = spec.type;
  head.rtm_dst_len = spec.destination == nullptr ? 0 : ipv4 ? 32 : 128;
  Bytes body;
  append(body, head);
  if (spec.destination != nullptr) {
    const auto address = *k8s::Address::parse(spec.destination);
    attribute(body, RTA_DST, address.bytes.data() + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
  }
  if (spec.gateway) attribute(body, RTA_GATEWAY, "\x0a\x00\x00\x01", 4);
  attribute(body, RTA_OIF, &spec.device, sizeof(spec.device));
  return message(type, body, 0, flags);
}

Bytes default_by_two(std::uint32_t one, std::uint32_t other) {
  rtmsg head{};
  head.rtm_family = AF_INET;
  head.rtm_table = RT_TABLE_MAIN;
  head.rtm_type = RTN_UNICAST;
  Bytes body;
  append(body, head);
  Bytes hops;
  for (const auto device : {one, other}) {
    append(hops, rtnexthop{sizeof(rtnexthop), 0, 0, static_cast<int>(device)});
  }
  attribute(body, RTA_MULTIPATH, hops.data(), hops.size());
  return message(RTM_NEWROUTE, body);
}

/// Tracks routes; device 1 is lo, 2 is eth0, 3 is eth1, and eth0 has 10.0.0.10.
RtnetlinkDump node_with_routes(const std::vector<Bytes>& routes) {
  RtnetlinkDump talk(Routes::followed);
  talk.begin();
  int index = 0;
  for (const auto* name : {"lo", "eth0", "eth1"}) {
    REQUIRE(talk.receive(device(RTM_NEWLINK, ++index, name)) == Next::wait);
  }
  REQUIRE(finish(talk) == Next::send);
  REQUIRE(talk.receive(address(RTM_NEWADDR, {2, "10.0.0.10"})) == Next::wait);
  REQUIRE(finish(talk) == Next::send);
  REQUIRE(asked_type(talk) == RTM_GETROUTE);
  REQUIRE_FALSE(talk.network().whole());
  for (const auto& each : routes) REQUIRE(talk.receive(each) == Next::wait);
  REQUIRE(finish(talk) == Next::notify);
  REQUIRE(talk.network().whole());
  return talk;
}

/// "eth0: 4 10.244.1.5": the families of default routes and the addresses that a device leads to.
std::vector<std::string> routes_of(const RtnetlinkDump& talk) {
  std::vector<std::string> list;
  for (const auto& [index, link] : talk.network().links()) {
    std::string text = link.device.name + ":";
    text += link.default_route4 ? " 4" : "";
    text += link.default_route6 ? " 6" : "";
    for (const auto& host : link.hosts) text += " " + host.text();
    if (text.back() != ':') list.push_back(text);
  }
  return list;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("rtnetlink: default routes of the main table and routes to hosts, and no others") {
  const auto talk = node_with_routes({
      route(RTM_NEWROUTE, {nullptr, 2, true}),
      route(RTM_NEWROUTE, {nullptr, 3, false, RT_TABLE_MAIN, AF_INET6}),
      route(RTM_NEWROUTE, {nullptr, 3, true, 42}),
      route(RTM_NEWROUTE, {nullptr, 1, false, RT_TABLE_MAIN, AF_INET6, RTN_UNREACHABLE}),
      route(RTM_NEWROUTE, {"10.244.1.5", 3}),
      route(RTM_NEWROUTE, {"fd00::5", 3, false, 42, AF_INET6}),
      route(RTM_NEWROUTE, {"10.244.2.5", 2, true}),
      route(RTM_NEWROUTE, {"10.0.0.10", 2, false, RT_TABLE_LOCAL}),
  });
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 6 10.244.1.5 fd00::5"});
}

TEST_CASE("rtnetlink: a default route of several next hops, and one that replaces it") {
  auto talk = node_with_routes({default_by_two(2, 3)});
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 4"});
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true}, NLM_F_REPLACE)) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth1: 4"});
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true})) == Next::wait);
  CHECK(talk.receive(route(RTM_DELROUTE, {nullptr, 3, true})) == Next::notify);
  CHECK(routes_of(talk).empty());
}

TEST_CASE("rtnetlink: what the kernel drops without a word") {
  auto talk =
      node_with_routes({route(RTM_NEWROUTE, {nullptr, 2, true}), route(RTM_NEWROUTE, {nullptr, 3, true})});
  // Routes that prefer an address as source are removed with it; the known routes stay valid until the new
  // dump is complete.
  CHECK(talk.receive(address(RTM_DELADDR, {2, "10.0.0.10"})) == Next::send);
  CHECK(asked_type(talk) == RTM_GETROUTE);
  CHECK(routes_of(talk) == Texts{"eth0: 4", "eth1: 4"});
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 3, true})) == Next::wait);
  CHECK(finish(talk) == Next::notify);
  CHECK(routes_of(talk) == Texts{"eth1: 4"});
  CHECK(talk.receive(device(RTM_DELLINK, 3, "eth1")) == Next::notify);
  CHECK(talk.receive(device(RTM_NEWLINK, 3, "eth1")) == Next::notify);
  CHECK(routes_of(talk).empty());
}

TEST_CASE("rtnetlink: who does not ask for routes hears of none") {
  auto talk = node_with({});
  CHECK(talk.network().whole());
  CHECK(talk.receive(route(RTM_NEWROUTE, {nullptr, 2, true})) == Next::wait);
  CHECK(routes_of(talk).empty());
}

}  // namespace lb::agent
