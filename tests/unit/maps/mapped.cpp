// SPDX-License-Identifier: Apache-2.0
// Memory-mapped arrays: the kernel's stride, word access, and what one store copies.
#include "maps/mapped.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>

#include "maps/abi/abi.h"

using lb::maps::MappedArray;

TEST_CASE("elements step by eight bytes, and slots share one") {
  CHECK(MappedArray<std::uint32_t>::stride == 4);
  CHECK(MappedArray<std::uint32_t>::element_bytes == sizeof(lb_slots_pair));
  CHECK(MappedArray<std::uint32_t>::per_element == LB_SLOTS_A_PAIR);
  CHECK(MappedArray<lb_service>::stride == 32);
  CHECK(MappedArray<lb_backend>::stride == 32);
  CHECK(MappedArray<lb_node>::stride == sizeof(lb_node));
}

TEST_CASE("what is stored is loaded, and neighbours are left alone") {
  auto slots = MappedArray<std::uint32_t>::in_memory(3);
  slots.store(1, 0xdeadbeef);
  CHECK(slots.load(0) == 0);
  CHECK(slots.load(1) == 0xdeadbeef);
  CHECK(slots.load(2) == 0);
}

TEST_CASE("publishing takes one word over, and says whether it differed") {
  auto services = MappedArray<lb_service>::in_memory(2);
  lb_service next{};
  next.cluster = {.first = 5, .count = 6};
  next.local = {.first = 7, .count = 8};
  services.publish<offsetof(lb_service, cluster)>(1, next);
  CHECK(services.load(1).cluster.count == 6);
  CHECK(services.load(1).local.count == 0);
  CHECK_FALSE(services.publish_change<offsetof(lb_service, cluster)>(1, next));
  CHECK(services.publish_change<offsetof(lb_service, local)>(1, next));
  CHECK(services.load(1).local.first == 7);
  CHECK(services.load(0).local.first == 0);
}
