// SPDX-License-Identifier: Apache-2.0
// Prints packets as text: the fields of every header, to show why a test failed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/prog/lib/harness.hpp"

namespace lb::test {

/// Header fields and their values: {"IPv4 ttl", "63"}. The bytes after the last known header are "payload",
/// in hex.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// Decodes from the Ethernet header on, including the packet quoted by an ICMP error. Decoding ends at a
/// truncated header ("cut off", remaining bytes).
[[nodiscard]] Fields fields_of(std::span<const std::uint8_t> packet);

/// Lists both packets field by field, one line each; differing fields are marked and show both values.
[[nodiscard]] std::string compare_packets(const Bytes& expected, const Bytes& came);

}  // namespace lb::test
