// SPDX-License-Identifier: Apache-2.0
// The link-layer addresses that XDP compares frames with: which device has which entry, and that the memory
// of all programs has the same entries (REL-91).
#include "agent/attach/frame_addresses.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <set>

namespace lb::agent {
namespace {

using Entries = std::array<lb_frame_address, LB_FRAME_ADDRESSES>;

constexpr FrameAddresses::Mac first{2, 0, 0, 0, 0, 1};
constexpr FrameAddresses::Mac second{2, 0, 0, 0, 0, 2};

bool says(const Entries& entries, std::uint32_t device, const FrameAddresses::Mac& mac) {
  const auto& entry = entries.at(device % LB_FRAME_ADDRESSES);
  return entry.device == device && std::ranges::equal(entry.address, mac);
}

std::ptrdiff_t used(const Entries& entries) {
  return std::ranges::count_if(entries, [](const auto& entry) { return entry.device != 0; });
}

}  // namespace

TEST_CASE("a device's address is written, and changed with it") {
  Entries entries{};
  FrameAddresses addresses;
  addresses.add(entries);
  CHECK(addresses.put(7, 7, first));
  CHECK(says(entries, 7, first));
  CHECK(addresses.put(7, 7, second));
  CHECK(says(entries, 7, second));
  CHECK(used(entries) == 1);
}

TEST_CASE("a port's frames are its bond's, and another one's when it changes") {
  Entries entries{};
  FrameAddresses addresses;
  addresses.add(entries);
  CHECK(addresses.put(7, 7, first));
  CHECK(entries.at(7).uplink == 7);
  CHECK(addresses.put(8, 7, first));
  CHECK(says(entries, 8, first));
  CHECK(entries.at(8).uplink == 7);
  CHECK(addresses.put(8, 8, first));
  CHECK(entries.at(8).uplink == 8);
}

TEST_CASE("of two devices with one entry the first keeps it until it goes") {
  Entries entries{};
  FrameAddresses addresses;
  addresses.add(entries);
  CHECK(addresses.put(7, 7, first));
  CHECK_FALSE(addresses.put(7 + LB_FRAME_ADDRESSES, 7 + LB_FRAME_ADDRESSES, second));
  CHECK(says(entries, 7, first));
  addresses.keep_only({7 + LB_FRAME_ADDRESSES});
  CHECK(used(entries) == 0);
  CHECK(addresses.put(7 + LB_FRAME_ADDRESSES, 7 + LB_FRAME_ADDRESSES, second));
  CHECK(says(entries, 7 + LB_FRAME_ADDRESSES, second));
}

TEST_CASE("a memory that comes later says the same, whatever it said before") {
  Entries entries{};
  Entries earlier{};
  earlier.at(9) = {.device = 9, .address = {2, 0, 0, 0, 0, 9}, .pad = {}, .uplink = 9};
  FrameAddresses addresses;
  addresses.add(entries);
  CHECK(addresses.put(7, 7, first));
  addresses.add(earlier);
  addresses.add({});
  for (const auto* each : {&entries, &earlier}) {
    CHECK(says(*each, 7, first));
    CHECK(used(*each) == 1);
  }
  CHECK(addresses.put(9, 9, second));
  for (const auto* each : {&entries, &earlier}) {
    CHECK(says(*each, 9, second));
  }
}

TEST_CASE("a program without such memory is left alone") {
  FrameAddresses addresses;
  addresses.add_program(0);
  CHECK(addresses.put(7, 7, first));
}

}  // namespace lb::agent
