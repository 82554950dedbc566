// SPDX-License-Identifier: Apache-2.0
// The messages about a start that takes a long time.
#include "agent/run/start_progress.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <vector>

namespace lb::agent {
namespace {

k8s::ApiStats list(std::string_view resource, std::uint64_t lists) {
  k8s::ApiStats stats;
  stats.resource = resource;
  stats.lists = lists;
  stats.requests = 3;
  stats.failures = 2;
  stats.bytes = 4096;
  stats.silence = std::chrono::milliseconds(4300);
  return stats;
}

}  // namespace

TEST_CASE("a start that takes long names the lists that are not there") {
  auto unasked = list("nodes", 0);
  unasked.requests = 0;
  const std::vector<k8s::ApiStats> api = {list("services", 1), list("endpointslices", 0), unasked,
                                          list("servicecidrs", 0)};
  CHECK(awaited(StartStep::objects, api) ==
        "the API's list of endpointslices (3 requests, 2 failed, 4096 bytes; last response 4 s ago), of "
        "nodes (not asked for yet)");
}

TEST_CASE("a start names its other steps, and none when it is over") {
  CHECK(awaited(StartStep::objects, {}) == "the manifests");
  CHECK(awaited(StartStep::objects, {list("services", 1)}) == "the objects of the API");
  CHECK_FALSE(awaited(StartStep::network, {}).empty());
  CHECK_FALSE(awaited(StartStep::plan, {}).empty());
  CHECK_FALSE(awaited(StartStep::turns, {}).empty());
  CHECK_FALSE(awaited(StartStep::tables, {}).empty());
  CHECK(awaited(StartStep::labels, {}) != awaited(StartStep::turns, {}));
  CHECK(awaited(StartStep::serving, {}).empty());
}

TEST_CASE("a start says how long it has waited, and that it could not look in time") {
  using std::chrono::milliseconds;
  CHECK(progress_message(milliseconds(5400), milliseconds(400), "the first plan") ==
        "not ready after 5 s: waiting for the first plan");
  const auto late = progress_message(milliseconds(36000), milliseconds(31000), "the first plan");
  CHECK(late.starts_with("not ready after 36 s: waiting for the first plan; this check came 31 s late"));
}

}  // namespace lb::agent
