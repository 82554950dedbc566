// SPDX-License-Identifier: Apache-2.0
// Packets with unusual memory layouts: large segments, and XDP frames in several buffers.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

Tuple to_narrow(int family) {
  return {family,
          6,
          {address_of(family == 4 ? "192.0.2.10" : "2001:db8:1::10"), 33000},
          {address_of(family == 4 ? "198.19.0.1" : "2001:db8:ffff::1"), 90}};
}

/// A request to a service whose only backend is on this node.
Tuple to_local(int family, std::uint8_t protocol) {
  return {family,
          protocol,
          {address_of(family == 4 ? "192.0.2.10" : "2001:db8:1::10"), 33100},
          {address_of(family == 4 ? "198.19.0.1" : "2001:db8:ffff::1"), 81}};
}

/// Opens a TCP flow at tc; returns the tuple of its replies.
Tuple open_flow(World& world, const Tuple& request, const char* way) {
  auto& programs = world.programs();
  const Run in{.hook = Hook::tc_in, .device = world.device("out0")};
  const Run back{.hook = Hook::tc_in, .device = world.device(way)};
  const auto first = programs.run(in, build(request, {.flags = syn}));
  const auto answer = tuple_of(first.packet).reversed();
  programs.run(back, build(answer, {.flags = syn | ack, .sequence = 700, .acknowledged = 1}));
  const auto third = programs.run(in, build(request, {.flags = ack, .sequence = 1, .acknowledged = 701}));
  CHECK(third.counts[LB_OUTCOME_assured] == 1);
  return answer;
}

/// An SCTP packet that ends after its common header, according to its IP header, too.
Bytes common_header_of(Bytes packet, int family) {
  const std::size_t network = family == 4 ? 20 : 40;
  packet.resize(14 + network + 12);
  const std::size_t length = family == 4 ? network + 12 : 12;
  const std::size_t at = 14 + (family == 4 ? 2 : 4);
  packet[at] = 0;
  packet[at + 1] = static_cast<std::uint8_t>(length);
  return packet;
}

}  // namespace

// A test run sets no transport header, so the kernel cannot check the segments' size: the net tests do.
TEST_CASE("SEM-43 a large segment is not refused for its whole size") {
  World world{Settings()};
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    const auto request = to_narrow(family);
    open_flow(world, request, "narrow");
    Run run{.hook = Hook::tc_in, .device = world.device("out0")};
    const auto large = build(request, {.payload = Bytes(3000, 7)});
    run.segment_size = 1200;
    const auto fits = world.programs().run(run, large);
    CHECK(fits.error == 0);
    CHECK(counts_text(fits.counts) == "flow_redirect");
    CHECK(sums_right(fits.packet));
  }
}

TEST_CASE("SEM-43 XDP leaves frames in several buffers to tc, untouched") {
  World world{Settings()};
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    const auto request = to_narrow(family);
    const auto answer = open_flow(world, request, "narrow");
    for (const auto& tuple : {request, answer}) {
      const auto packet = build(tuple, {.payload = Bytes(3000, 7)});
      const auto verdict =
          world.programs().run({.hook = Hook::xdp, .device = world.device("out0"), .linear = 1000}, packet);
      CHECK(verdict.error == 0);
      CHECK(counts_text(verdict.counts) == "left_to_tc");
      CHECK(verdict.packet == packet);
    }
  }
}

// While one attach type replaces another (TCX, clsact) both programs are at the hook, the old one first.
TEST_CASE(
    "REL-7 what another program of ours at the same hook has translated is nobody's direct connection") {
  World world{Settings()};
  auto& programs = world.programs();
  for (const int family : {4, 6}) {
    for (const auto protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
      INFO("IPv" << family << ", protocol " << int{protocol});
      Run run{.hook = Hook::tc_in, .device = world.device("out0")};
      const auto request = to_local(family, protocol);
      const auto first = programs.run(run, build(request, {.flags = syn}));
      CHECK(counts_text(first.counts) == "new_local");
      CHECK(programs.run(run, first.packet).counts[LB_OUTCOME_new_direct] == 1);
      run.control = first.control;
      const auto second = programs.run(run, first.packet);
      CHECK(counts_text(second.counts) == "unrelated");
      CHECK(second.packet == first.packet);
      run.hook = Hook::pod_in;
      CHECK(programs.run(run, first.packet).counts[LB_OUTCOME_new_direct] == 1);
    }
  }
}

// The kernel's own SCTP leaves the CRC32c to a card, or to skb_crc32c_csum_help(): both sum over a field that
// must be 0.
TEST_CASE("an SCTP checksum that is still to be made stays zero where ports change") {
  World world{Settings()};
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    auto packet = build(to_local(family, 132), {.flags = syn});
    const std::size_t checksum = 14 + (family == 4 ? 20 : 40) + 8;
    const auto sum_of = [checksum](const Bytes& bytes) {
      return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(checksum),
                   bytes.begin() + static_cast<std::ptrdiff_t>(checksum) + 4);
    };
    std::fill_n(packet.begin() + static_cast<std::ptrdiff_t>(checksum), 4, std::uint8_t{0});
    const auto verdict = world.programs().run({.hook = Hook::tc_in, .device = world.device("out0")}, packet);
    CHECK(counts_text(verdict.counts) == "new_local");
    CHECK(tuple_of(verdict.packet).destination.port == 8080);
    CHECK(sum_of(verdict.packet) == Bytes(4, 0));
  }
}

// The kernel combines several packets of an SCTP sender in one skb (GSO_BY_FRAGS), of which only the common
// header is linear. A test run's packet is linear as a whole, and therefore ends after that header.
TEST_CASE("several SCTP packets in one need no more than the common header, any other packet needs a chunk") {
  World world{Settings()};
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Run run{.hook = Hook::tc_in, .device = world.device("out0")};
    const auto whole = build(to_local(family, 132), {.flags = ack});
    const auto header = common_header_of(whole, family);
    CHECK(counts_text(world.programs().run(run, header).counts) == "malformed");
    CHECK(counts_text(world.programs().run(run, build(to_local(family, 132), {.flags = syn})).counts) ==
          "new_local");
    run.segment_size = 0xffff;
    const auto several = world.programs().run(run, header);
    CHECK(several.error == 0);
    CHECK(counts_text(several.counts) == "new_local+midstream");
    CHECK(several.packet.size() == header.size());
    CHECK(tuple_of(several.packet) == tuple_of(world.programs().run(run, whole).packet));
  }
}

}  // namespace lb::test
