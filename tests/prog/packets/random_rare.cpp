// SPDX-License-Identifier: Apache-2.0
// Random rare packets of known flows, compared with a model that builds each input and output from scratch:
// SCTP, IPv4 options, chains of IPv6 extension headers, fragments, and ICMP errors about all of them; at tc
// and at XDP.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <optional>
#include <random>

#include "tests/lib/amount.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint8_t tcp = 6, udp = 17, sctp = 132;

/// All of a packet except its tuple and its hop limit.
struct Shape {
  std::uint8_t flags = ack;
  std::uint32_t number = 0;        ///< TCP's sequence number, SCTP's tag
  std::uint32_t acknowledged = 0;  ///< TCP's acknowledgement
  std::uint8_t chunk = 0;          ///< SCTP's chunk type
  std::uint32_t initiate_tag = 0;  ///< the tag in SCTP's INIT-ACK
  Bytes payload{};
  Bytes options{};             ///< IPv4 options
  std::vector<Bytes> chain{};  ///< IPv6 extension headers: header number, then its bytes from the length on
  std::uint32_t id = 0;        ///< identification of a fragmented datagram
  std::size_t piece = 0;       ///< payload bytes of each fragment, a multiple of 8; 0: not fragmented
};

Bytes wire(int family, const Address& address) {
  return {address.begin() + (family == 4 ? 12 : 0), address.end()};
}

std::uint64_t pseudo(int family, const Address& source, const Address& destination, std::uint8_t protocol,
                     std::size_t length) {
  Bytes header = wire(family, source);
  put(header, wire(family, destination));
  return static_cast<std::uint16_t>(~internet_sum(header)) + std::uint64_t{protocol} + length;
}

Bytes sctp_of(const Tuple& tuple, const Shape& shape) {
  Bytes bytes;
  put16(bytes, tuple.source.port);
  put16(bytes, tuple.destination.port);
  put32(bytes, shape.number);
  put32(bytes, 0);
  bytes.push_back(shape.chunk);
  bytes.push_back(0);
  put16(bytes, 8 + shape.payload.size());
  put32(bytes, shape.initiate_tag);
  put(bytes, shape.payload);
  const auto crc = crc_of(bytes);
  for (std::size_t at = 0; at < 4; ++at) {
    bytes[8 + at] = static_cast<std::uint8_t>(crc >> 8 * at);
  }
  return bytes;
}

/// The whole datagram after the IP header, with its checksum.
Bytes transport_of(const Tuple& tuple, const Shape& shape) {
  if (tuple.protocol == sctp) {
    return sctp_of(tuple, shape);
  }
  Bytes bytes;
  put16(bytes, tuple.source.port);
  put16(bytes, tuple.destination.port);
  if (tuple.protocol == udp) {
    put16(bytes, 8 + shape.payload.size());
  } else {
    put32(bytes, shape.number);
    put32(bytes, shape.acknowledged);
    put(bytes, Bytes{0x50, shape.flags, 0x20, 0});
  }
  put16(bytes, 0);
  if (tuple.protocol == tcp) {
    put16(bytes, 0);
  }
  put(bytes, shape.payload);
  auto sum = internet_sum(bytes, pseudo(tuple.family, tuple.source.address, tuple.destination.address,
                                        tuple.protocol, bytes.size()));
  if (tuple.protocol == udp && sum == 0) {
    sum = 0xffff;
  }
  write16(bytes, tuple.protocol == udp ? 6 : 16, sum);
  return bytes;
}

/// The part of a datagram that one packet carries.
struct Share {
  std::size_t offset = 0;
  std::size_t size = 0;
  bool more = false;
};

Bytes ipv4(const Tuple& tuple, const Shape& shape, std::uint8_t hops, std::uint8_t protocol,
           const Bytes& body, Share share) {
  Bytes bytes = {static_cast<std::uint8_t>(0x45 + shape.options.size() / 4), 0};
  put16(bytes, 20 + shape.options.size() + body.size());
  put16(bytes, shape.id);
  put16(bytes, share.offset / 8 | (share.more ? 0x2000U : 0U));
  put(bytes, Bytes{hops, protocol, 0, 0});
  put(bytes, wire(4, tuple.source.address));
  put(bytes, wire(4, tuple.destination.address));
  put(bytes, shape.options);
  write16(bytes, 10, internet_sum(bytes));
  put(bytes, body);
  return bytes;
}

Bytes ipv6(const Tuple& tuple, const Shape& shape, std::uint8_t hops, std::uint8_t protocol,
           const Bytes& body, Share share) {
  auto chain = shape.chain;
  if (shape.piece != 0) {
    Bytes header = {44, 0};
    put16(header, share.offset | (share.more ? 1U : 0U));
    put32(header, shape.id);
    chain.push_back(header);
  }
  Bytes inner;
  for (std::size_t at = 0; at < chain.size(); ++at) {
    inner.push_back(at + 1 < chain.size() ? chain[at + 1][0] : protocol);
    put(inner, std::span(chain[at]).subspan(1));
  }
  put(inner, body);
  Bytes bytes = {0x60, 0, 0, 0};
  put16(bytes, inner.size());
  put(bytes, Bytes{chain.empty() ? protocol : chain[0][0], hops});
  put(bytes, wire(6, tuple.source.address));
  put(bytes, wire(6, tuple.destination.address));
  put(bytes, inner);
  return bytes;
}

Bytes network(const Tuple& tuple, const Shape& shape, std::uint8_t hops, std::uint8_t protocol,
              const Bytes& body, Share share = {}) {
  return tuple.family == 4 ? ipv4(tuple, shape, hops, protocol, body, share)
                           : ipv6(tuple, shape, hops, protocol, body, share);
}

Bytes frame(int family, const Bytes& packet) {
  Bytes bytes = {0, 0, 0, 0, 0, 0, 2, 0xff, 0, 0, 0, 1};
  put16(bytes, family == 4 ? 0x0800 : 0x86dd);
  put(bytes, packet);
  return bytes;
}

/// One packet, or all fragments in order.
std::vector<Bytes> packets_of(const Tuple& tuple, const Shape& shape, std::uint8_t hops) {
  const auto datagram = transport_of(tuple, shape);
  const auto piece = shape.piece == 0 ? datagram.size() : shape.piece;
  std::vector<Bytes> packets;
  for (std::size_t at = 0; at < datagram.size(); at += piece) {
    const Share share{at, std::min(piece, datagram.size() - at), at + piece < datagram.size()};
    const auto begin = datagram.begin() + static_cast<std::ptrdiff_t>(at);
    const Bytes body(begin, begin + static_cast<std::ptrdiff_t>(share.size));
    packets.push_back(frame(tuple.family, network(tuple, shape, hops, tuple.protocol, body, share)));
  }
  return packets;
}

/// An ICMP error from `from` to the sender of the packet that `quoted` is the beginning of.
struct Complaint {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  std::uint32_t rest = 0;
};

Bytes error_of(int family, const Address& from, const Address& to, const Complaint& complaint,
               const Bytes& quoted, std::uint8_t hops) {
  const std::uint8_t protocol = family == 4 ? 1 : 58;
  Bytes icmp = {complaint.type, complaint.code, 0, 0};
  put32(icmp, complaint.rest);
  put(icmp, quoted);
  write16(icmp, 2, internet_sum(icmp, family == 4 ? 0 : pseudo(6, from, to, protocol, icmp.size())));
  Shape plain;
  plain.id = 0x4321;
  return frame(family, network({family, protocol, {from, 0}, {to, 0}}, plain, hops, protocol, icmp));
}

enum class Client : std::uint8_t { outside, pod };

struct Flow {
  Tuple request;
  Tuple onward;
  Client client = Client::outside;
  bool local = false;  ///< delivered by the stack
};

/// One direction of a flow and the hook that sees it.
struct Way {
  Hook hook = Hook::tc_in;
  const char* device = "out0";
  Tuple arriving;
  Tuple leaving;
  bool counts_hop = false;
  const char* out = "out0";  ///< device by which XDP sends it
  Address next{};            ///< next hop to which XDP sends it
};

bool is_way_of_xdp(const Way& way) { return way.hook == Hook::tc_in && way.counts_hop; }

/// Whether a routing header lists further segments before the destination; such packets are not ours.
bool has_segments_left(const Shape& shape) {
  return std::ranges::any_of(shape.chain,
                             [](const Bytes& header) { return header[0] == 43 && header[3] != 0; });
}

/// Whether the packets are fragments of an SCTP message with a port change, which requires a new checksum.
bool is_sumless(const Way& way, const std::vector<Bytes>& packets) {
  return way.arriving.protocol == sctp && packets.size() > 1 &&
         (way.arriving.source.port != way.leaving.source.port ||
          way.arriving.destination.port != way.leaving.destination.port);
}

Way forth(const Flow& flow) {
  if (flow.client == Client::pod) {
    return {Hook::pod_in, "pod0", flow.request, flow.onward, false};
  }
  return {
      Hook::tc_in, "out0", flow.request, flow.onward, !flow.local, "out1", flow.onward.destination.address};
}

Way back(const Flow& flow) {
  const auto arriving = flow.onward.reversed();
  const auto leaving = flow.request.reversed();
  if (flow.client == Client::pod) {
    return {Hook::pod_out, "pod0", arriving, leaving, false};
  }
  return {flow.local ? Hook::tc_out : Hook::tc_in,
          flow.local ? "out0" : "out1",
          arriving,
          leaving,
          !flow.local,
          "out0",
          address_of(flow.request.family == 4 ? "192.0.2.254" : "2001:db8:1::fe")};
}

class Rare {
 public:
  explicit Rare(World& world) : world_(world), random_(Catch::getSeed()) {
    for (const int family : {4, 6}) {
      // Ports of this frontend are not translated.
      world.change({"frontend", fmt::format("local_sctp{}", family), "load_balancer", "sctp",
                    family == 4 ? "198.19.0.1" : "2001:db8:ffff::1", "8080"});
      for (int i = 0; i < 4; ++i) {
        open(family, sctp, 8080, Client::outside);
      }
      for (const auto protocol : {tcp, udp, sctp}) {
        for (const auto port : {std::uint16_t{80}, std::uint16_t{81}}) {
          for (int i = 0; i < 4; ++i) {
            open(family, protocol, port, Client::outside);
            open(family, protocol, port, Client::pod);
          }
        }
      }
    }
  }

  /// Runs one random packet. Returns false after a failed check.
  bool step() {
    const auto& flow = flows_[below(flows_.size())];
    const auto way = below(2) == 0 ? forth(flow) : back(flow);
    const auto kind = below(4);
    if (kind == 0) {
      return complain(flow, way);
    }
    return carry(way, kind == 1 ? fragmented(way.arriving) : shape(way.arriving));
  }

  [[nodiscard]] std::size_t sent_by_xdp() const noexcept { return sent_by_xdp_; }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(below(256)); }
  Bytes bytes(std::size_t count) {
    Bytes made(count);
    for (auto& each : made) {
      each = below(4) == 0 ? 0xff : byte();
    }
    return made;
  }

  Verdict run(const Way& way, const Bytes& packet) {
    return world_.programs().run({.hook = way.hook, .device = world_.device(way.device)}, packet);
  }

  void open(int family, std::uint8_t protocol, std::uint16_t port, Client asking) {
    Flow flow;
    flow.client = asking;
    flow.local = port != 80 || asking == Client::pod;
    auto client = address_of(family == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
    client[14] = byte();
    client[15] = static_cast<std::uint8_t>(1 + below(250));
    flow.request = {family,
                    protocol,
                    {client, static_cast<std::uint16_t>(1024 + below(60000))},
                    {address_of(family == 4 ? "198.19.0.1" : "2001:db8:ffff::1"), port}};
    const auto first = packets_of(flow.request, {.flags = syn, .chunk = 1}, 64).front();
    const auto verdict = run(forth(flow), first);
    REQUIRE(verdict.counts[asking == Client::pod ? LB_OUTCOME_new_from_pod
                           : flow.local          ? LB_OUTCOME_new_local
                                                 : LB_OUTCOME_new_remote] == 1);
    flow.onward = opened(flow.request, verdict.packet);
    run(back(flow), packets_of(back(flow).arriving,
                               {.flags = syn | ack, .number = 700, .chunk = 2, .initiate_tag = 701}, 64)
                        .front());
    const auto third =
        run(forth(flow),
            packets_of(
                flow.request,
                {.flags = ack, .number = protocol == sctp ? 701U : 1U, .acknowledged = 701, .chunk = 10}, 64)
                .front());
    if (protocol != udp) {
      REQUIRE(third.counts[LB_OUTCOME_assured] == 1);
    }
    flows_.push_back(flow);
  }

  /// The tuple that the program translated a first packet without options to; the reference has no layout for
  /// SCTP.
  static Tuple opened(const Tuple& request, const Bytes& packet) {
    const std::size_t width = request.family == 4 ? 4 : 16;
    const std::size_t addresses = 14 + (request.family == 4 ? 12 : 8);
    const std::size_t ports = 14 + (request.family == 4 ? 20 : 40);
    Tuple onward = request;
    for (auto* end : {&onward.source, &onward.destination}) {
      const auto from =
          packet.begin() + static_cast<std::ptrdiff_t>(addresses + (end == &onward.source ? 0 : width));
      std::copy_n(from, width, end->address.end() - static_cast<std::ptrdiff_t>(width));
      end->port = read16(packet, ports + (end == &onward.source ? 0 : 2));
    }
    return onward;
  }

  Shape shape(const Tuple& tuple) {
    Shape made;
    made.number = static_cast<std::uint32_t>(random_());
    made.acknowledged = static_cast<std::uint32_t>(random_());
    made.flags = static_cast<std::uint8_t>(ack | (below(2) != 0 ? psh : 0) | (below(8) == 0 ? 0x20 : 0) |
                                           (byte() & 0xc0));
    made.chunk = below(8) == 0 ? 3 : 0;
    made.initiate_tag = static_cast<std::uint32_t>(random_());
    made.id = static_cast<std::uint32_t>(below(65536));
    made.payload = bytes(below(3) == 0 ? below(1100) : below(40));
    if (tuple.family == 4 && below(3) == 0) {
      made.options = Bytes(4 * (1 + below(10)), 1);
    }
    if (tuple.family == 6) {
      made.chain = chain(below(3) == 0 ? 1 + below(8) : 0);
    }
    return made;
  }

  std::vector<Bytes> chain(std::size_t headers) {
    std::vector<Bytes> made;
    for (std::size_t at = 0; at < headers; ++at) {
      const auto units = below(3);
      Bytes header = {std::uint8_t{at == 0 && below(2) == 0 ? std::uint8_t{0}
                                   : below(4) == 0          ? std::uint8_t{43}
                                                            : std::uint8_t{60}},
                      static_cast<std::uint8_t>(units)};
      put(header, bytes(6 + 8 * units));
      made.push_back(header);
    }
    return made;
  }

  Shape fragmented(const Tuple& tuple) {
    auto made = shape(tuple);
    made.chain.clear();
    made.payload = bytes(200 + below(3000));
    made.piece = 8 * (3 + below(150));
    made.id = next_id_++;
    return made;
  }

  /// Every other packet that XDP might send is first run at XDP; if XDP leaves it to tc, it must be
  /// unchanged.
  bool expect(const Way& way, const Bytes& in, const Bytes& out) {
    if (!is_way_of_xdp(way) || below(2) == 0) {
      return expect_at(way, in, out);
    }
    auto first = way;
    first.hook = Hook::xdp;
    const auto verdict = run(first, in);
    if (verdict.counts[LB_OUTCOME_left_to_tc] == 1) {
      return judge(first, verdict, in, in) && expect_at(way, in, out);
    }
    ++sent_by_xdp_;
    auto sent = out;
    set_macs(sent,
             {2, 0, 0, 0, 0, static_cast<std::uint8_t>(way.out == std::string_view("out0") ? 0x10 : 0x11)},
             neighbour_mac(way.next));
    return judge(first, verdict, in, sent);
  }

  bool expect_at(const Way& way, const Bytes& in, const Bytes& out) {
    return judge(way, run(way, in), in, out);
  }

  static bool judge(const Way& way, const Verdict& verdict, const Bytes& in, const Bytes& out) {
    INFO(hook_name(way.hook) << ", " << counts_text(verdict.counts) << "\nin       " << hex(in)
                             << "\nexpected " << hex(out) << "\ncame     " << hex(verdict.packet));
    CHECK(verdict.error == 0);
    CHECK((verdict.packet == out));  // printed as hex above: Catch2 cannot print every byte
    return verdict.error == 0 && verdict.packet == out;
  }

  bool carry(const Way& way, const Shape& shape) {
    const auto hops = static_cast<std::uint8_t>(2 + below(250));
    const auto in = packets_of(way.arriving, shape, hops);
    if (has_segments_left(shape)) {
      return untouched(way, in, LB_OUTCOME_other_protocol);
    }
    if (is_sumless(way, in)) {
      return untouched(way, in, LB_OUTCOME_sctp_fragment);
    }
    const auto out =
        packets_of(way.leaving, shape, static_cast<std::uint8_t>(hops - (way.counts_hop ? 1 : 0)));
    std::vector<std::size_t> order;
    for (std::size_t at = 1; at < in.size(); ++at) {
      order.push_back(at);
    }
    std::shuffle(order.begin(), order.end(), random_);
    order.insert(order.begin(), 0);
    for (const auto at : order) {
      if (!expect(way, in[at], out[at])) {
        return false;
      }
    }
    return true;
  }

  bool untouched(const Way& way, const std::vector<Bytes>& packets, lb_outcome outcome) {
    return std::ranges::all_of(packets, [&](const Bytes& packet) {
      const auto verdict = run(way, packet);
      CHECK(verdict.counts[outcome] == 1);
      return verdict.counts[outcome] == 1 && judge(way, verdict, packet, packet);
    });
  }

  /// A router, or the other end itself, sends an ICMP error about a packet of the other direction.
  bool complain(const Flow& flow, const Way& way) {
    const int family = flow.request.family;
    auto about = shape(way.arriving);
    about.chain.clear();
    if (about.payload.size() > 400) {
      about.payload.resize(400);
    }
    const auto size = quoted(way.arriving.protocol);
    const auto quote = [&](const Tuple& tuple) {
      auto whole = packets_of(tuple, about, 33).front();
      whole.erase(whole.begin(), whole.begin() + 14);
      const std::size_t headers = (family == 4 ? 20 : 40) + about.options.size();
      if (size != 0) {
        whole.resize(std::min(whole.size(), headers + size));
      }
      return whole;
    };
    const bool own = below(2) == 0;
    auto middle = address_of(family == 4 ? "203.0.113.77" : "2001:db8:77::1");
    const auto from_in = own ? way.arriving.source.address : middle;
    const auto from_out = own ? way.leaving.source.address : middle;
    const auto complaint = random_complaint(family);
    const auto hops = static_cast<std::uint8_t>(2 + below(250));
    const auto in = error_of(family, from_in, way.arriving.destination.address, complaint,
                             quote(way.arriving.reversed()), hops);
    const auto out =
        error_of(family, from_out, way.leaving.destination.address, complaint, quote(way.leaving.reversed()),
                 static_cast<std::uint8_t>(hops - (way.counts_hop ? 1 : 0)));
    return expect(way, in, out);
  }

  /// The number of quoted bytes after the IP header; 0: all. Half of TCP's checksum would be quoted
  /// unchanged, which the model does not cover, and SCTP's covers bytes that are not quoted.
  std::size_t quoted(std::uint8_t protocol) {
    if (protocol == sctp) {
      return 8;
    }
    const auto size = below(2) == 0 ? 0 : 8 + below(30);
    return size == 17 ? 18 : size;
  }

  Complaint random_complaint(int family) {
    static const std::array<Complaint, 5> four = {
        {{3, 1, 0}, {3, 3, 0}, {3, 4, 1280}, {11, 0, 0}, {12, 0, 0}}};
    static const std::array<Complaint, 5> six = {{{1, 0, 0}, {1, 4, 0}, {2, 0, 1280}, {3, 0, 0}, {4, 1, 40}}};
    return (family == 4 ? four : six).at(below(5));
  }

  World& world_;
  std::mt19937_64 random_;
  std::vector<Flow> flows_;
  std::uint32_t next_id_ = 0x10000;
  std::size_t sent_by_xdp_ = 0;
};

}  // namespace

TEST_CASE("REL-17 random rare packets of known flows are rewritten as the model says") {
  const auto& [without, features, share] = GENERATE(from_range(feature_sets));
  INFO("without " << without);
  const int packets = amount(20'000, 200'000) / share;
  Settings settings;
  features(settings);
  World world(settings);
  Rare rare(world);
  for (int i = 0; i < packets; ++i) {
    REQUIRE(rare.step());
  }
  CHECK(rare.sent_by_xdp() > static_cast<std::size_t>(packets) / 25);  // 5.7 % are expected
}

}  // namespace lb::test
