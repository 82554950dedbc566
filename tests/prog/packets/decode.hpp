// Prints packets as text: the fields of every header, to show why a test failed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/prog/lib/harness.hpp"

namespace lb::test {

/// A header's field and its value: {"IPv4 ttl", "63"}. What is behind the last known header is "payload", in
/// hex.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// From the Ethernet header on, into what an ICMP error quotes. A header that is cut off ends it ("cut off",
/// bytes left).
[[nodiscard]] Fields fields_of(std::span<const std::uint8_t> packet);

/// Both packets field by field, a line each: the fields that differ are marked and show both values.
[[nodiscard]] std::string compare_packets(const Bytes& expected, const Bytes& came);

}  // namespace lb::test
