// SPDX-License-Identifier: Apache-2.0
// When a flow has ended: protocol, states and idle time of both entries, as a table; and the key of the
// other entry.
#include <algorithm>
#include <array>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "agent/tables/expiry.hpp"
#include "tests/lib/seed.hpp"

namespace {

using namespace lb::agent;

/// One entry of a flow: its state, the time since its last packet, and how long the flow had lasted at that
/// packet; in seconds.
struct Entry {
  lb_state state = LB_OPEN;
  std::uint32_t idle = 0;
  std::uint32_t lasted = 100;
  lb_direction direction = LB_FORWARD;
};

lb_track track(const Entry& entry, std::uint32_t now) {
  lb_track track{};
  track.state = entry.state;
  track.seen = now - entry.idle;
  track.opened = track.seen - entry.lasted;
  track.direction = entry.direction;
  return track;
}

struct Row {
  std::string name;
  lb_protocol protocol;
  Entry entry;
  std::optional<Entry> other;
  std::optional<Ending> expected;
  TableFill fill = TableFill::normal;
};

constexpr auto lives = std::nullopt;
constexpr Entry none_seen_for(std::uint32_t seconds) { return {.idle = seconds}; }
constexpr Entry closing_for(std::uint32_t seconds) { return {.state = LB_CLOSING, .idle = seconds}; }
constexpr Entry reset_for(std::uint32_t seconds) { return {.state = LB_RESET, .idle = seconds}; }
constexpr Entry brief(std::uint32_t seconds) { return {.idle = seconds, .lasted = 2}; }
constexpr Entry reply(std::uint32_t seconds) { return {.idle = seconds, .direction = LB_REPLY}; }

const std::vector<Row> rows = {
    {"TCP in use", LB_TCP, none_seen_for(0), none_seen_for(0), lives},
    {"TCP silent for a day", LB_TCP, none_seen_for(86400), none_seen_for(86400), lives},
    {"TCP silent for longer", LB_TCP, none_seen_for(86401), none_seen_for(86401), Ending::idle},
    {"TCP, only requests", LB_TCP, none_seen_for(0), none_seen_for(90000), lives},
    {"TCP, only replies", LB_TCP, none_seen_for(90000), none_seen_for(1), lives},
    {"TCP, both FINs, the port is kept", LB_TCP, closing_for(60), closing_for(60), lives},
    {"TCP, both FINs, a minute ago", LB_TCP, closing_for(61), closing_for(61), Ending::closed},
    {"TCP, both FINs, the last ACKs pass", LB_TCP, closing_for(100), closing_for(5), lives},
    {"TCP, one FIN, the other side still sends", LB_TCP, closing_for(4000), none_seen_for(10), lives},
    {"TCP, one FIN, an hour of silence", LB_TCP, closing_for(3600), none_seen_for(3600), lives},
    {"TCP, one FIN, longer", LB_TCP, closing_for(3601), none_seen_for(3601), Ending::half_closed},
    {"TCP, one FIN, little room", LB_TCP, closing_for(61), none_seen_for(61), Ending::half_closed,
     TableFill::nearly_full},
    {"TCP, one FIN, little room, in use", LB_TCP, closing_for(61), none_seen_for(3), lives,
     TableFill::nearly_full},
    {"TCP, a reset, the port is kept", LB_TCP, reset_for(60), none_seen_for(60), lives},
    {"TCP, a reset, a minute ago", LB_TCP, reset_for(61), none_seen_for(61), Ending::closed},
    {"TCP, a reset that was forged: the other side goes on", LB_TCP, reset_for(100), none_seen_for(1), lives},
    {"TCP, a FIN and a reset", LB_TCP, reset_for(61), closing_for(61), Ending::closed},
    {"SCTP, aborted", LB_SCTP, reset_for(61), none_seen_for(61), Ending::closed},
    {"TCP, open, little room", LB_TCP, none_seen_for(80000), none_seen_for(80000), lives,
     TableFill::nearly_full},
    {"UDP, one exchange", LB_UDP, brief(30), brief(30), lives},
    {"UDP, one exchange, over", LB_UDP, brief(31), brief(31), Ending::idle},
    {"UDP, a stream", LB_UDP, none_seen_for(180), none_seen_for(180), lives},
    {"UDP, a stream, over", LB_UDP, none_seen_for(181), none_seen_for(181), Ending::idle},
    {"UDP, a stream of one direction, at rest", LB_UDP, none_seen_for(100), brief(150), lives},
    {"UDP, a stream of one direction, in use", LB_UDP, brief(5000), none_seen_for(0), lives},
    {"SCTP", LB_SCTP, none_seen_for(210), none_seen_for(210), lives},
    {"SCTP, heartbeats ended", LB_SCTP, none_seen_for(211), none_seen_for(211), Ending::idle},
    {"SCTP, one side said the end", LB_SCTP, closing_for(61), none_seen_for(61), Ending::closed},
    {"requests without a way back", LB_TCP, none_seen_for(0), std::nullopt, Ending::orphaned},
    {"replies without requests", LB_TCP, reply(60), std::nullopt, lives},
    {"replies without requests, at rest", LB_TCP, reply(61), std::nullopt, Ending::orphaned},
    {"our clock is a second behind", LB_UDP, brief(static_cast<std::uint32_t>(-1)), brief(500), lives},
};

/// The decision when the walk visits this entry.
std::optional<Ending> decide(const Row& row, const Entry& entry, const std::optional<Entry>& other,
                             std::uint32_t now) {
  const ExpiryTerms terms{.timeouts = {}, .fill = row.fill, .now = now};
  const auto mine = track(entry, now);
  if (!other) {
    return ending(terms, row.protocol, mine, nullptr);
  }
  const auto theirs = track(*other, now);
  return ending(terms, row.protocol, mine, &theirs);
}

TEST_CASE("when a flow has ended") {
  const auto now = GENERATE(1000000U, 5U);  // 5: the clock has just wrapped at 2^32
  for (const auto& row : rows) {
    CAPTURE(row.name, now);
    CHECK(decide(row, row.entry, row.other, now) == row.expected);
    if (row.other) {
      CHECK(decide(row, *row.other, row.entry, now) == row.expected);
    }
  }
}

TEST_CASE("the time-outs are the options'") {
  const FlowTimeouts timeouts{
      .established = 10, .close_wait = 9, .closing = 8, .udp = 7, .udp_stream = 6, .sctp = 5};
  const auto limit = [&](lb_protocol protocol, const Entry& entry, const Entry& other) {
    for (std::uint32_t idle = 0; idle < 20; ++idle) {
      auto one = track(entry, 1000);
      auto two = track(other, 1000);
      one.seen -= idle, one.opened -= idle, two.seen -= idle, two.opened -= idle;
      if (ending({.timeouts = timeouts, .now = 1000}, protocol, one, &two)) {
        return idle - 1;
      }
    }
    return 99U;
  };
  CHECK(limit(LB_TCP, none_seen_for(0), none_seen_for(0)) == 10);
  CHECK(limit(LB_TCP, closing_for(0), none_seen_for(0)) == 9);
  CHECK(limit(LB_TCP, closing_for(0), closing_for(0)) == 8);
  CHECK(limit(LB_UDP, brief(0), brief(0)) == 7);
  CHECK(limit(LB_UDP, none_seen_for(0), brief(0)) == 6);
  CHECK(limit(LB_SCTP, none_seen_for(0), none_seen_for(0)) == 5);
}

TEST_CASE("a flow that has ended shows it in one of its entries alone") {
  const auto seed = lb::test::seed();
  std::mt19937 random(seed);
  const auto below = [&random](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  constexpr std::array protocols = {LB_TCP, LB_UDP, LB_SCTP};
  std::size_t ended = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto entry = [&] {
      constexpr std::array states = {LB_OPEN, LB_OPEN, LB_CLOSING, LB_RESET};
      return track({.state = states.at(below(4)), .idle = below(400), .lasted = below(5)}, 70000);
    };
    const lb_protocol protocol = protocols.at(below(3));
    const ExpiryTerms terms{.timeouts = {.established = 1 + below(300),
                                         .close_wait = 1 + below(300),
                                         .closing = 1 + below(300),
                                         .udp = 1 + below(300),
                                         .udp_stream = 1 + below(300),
                                         .sctp = 1 + below(300)},
                            .fill = below(2) == 0 ? TableFill::normal : TableFill::nearly_full,
                            .now = 70000};
    const auto one = entry();
    const auto two = entry();
    if (ending(terms, protocol, one, &two)) {
      ++ended;
      CAPTURE(seed, round, protocol, one.seen, two.seen);
      CHECK((may_have_ended(terms, protocol, one) || may_have_ended(terms, protocol, two)));
    }
  }
  CHECK(ended > 1000);
}

TEST_CASE("an entry in use has not ended") {
  const ExpiryTerms terms{.timeouts = {}, .fill = TableFill::nearly_full, .now = 1000000};
  for (const auto protocol : {LB_TCP, LB_UDP, LB_SCTP}) {
    CHECK_FALSE(may_have_ended(terms, protocol, track(none_seen_for(20), terms.now)));
    CHECK_FALSE(may_have_ended(terms, protocol, track(closing_for(20), terms.now)));
  }
}

TEST_CASE("the other entry's key, and back") {
  // 192.0.2.20:37094 sends to 203.0.113.80:80; the packet is forwarded from 10.0.0.1:2000 to
  // 10.244.4.10:8080.
  const lb_flow4_key asked{{192, 0, 2, 20}, {203, 0, 113, 80}, 37094, 80, LB_TCP, {}};
  lb_flow4 forward{};
  forward.source = {{10, 0, 0, 1}, 2000, 0};
  forward.destination = {{10, 244, 4, 10}, 8080, 0};
  const auto answer = other_key(asked, forward);
  CHECK(std::ranges::equal(answer.source, std::array<__u8, 4>{10, 244, 4, 10}));
  CHECK(std::ranges::equal(answer.destination, std::array<__u8, 4>{10, 0, 0, 1}));
  CHECK(answer.source_port == 8080);
  CHECK(answer.destination_port == 2000);
  CHECK(answer.protocol == LB_TCP);
}

TEST_CASE("the other entry's key of IPv6") {
  lb_flow6_key asked{};
  asked.source[15] = 1, asked.destination[15] = 2, asked.source_port = 3, asked.destination_port = 4;
  asked.protocol = LB_UDP, asked.family = LB_IPV6;
  lb_flow6 forward{};
  forward.source[15] = 5, forward.destination[15] = 6;
  forward.source_port = 7, forward.destination_port = 8;
  const auto answer = other_key(asked, forward);
  CHECK(answer.source[15] == 6);
  CHECK(answer.destination[15] == 5);
  CHECK(answer.source_port == 8);
  CHECK(answer.destination_port == 7);
  CHECK(answer.protocol == LB_UDP);
  CHECK(answer.family == LB_IPV6);
}

}  // namespace
