// SPDX-License-Identifier: Apache-2.0
// The pure parts of the checks at a start: memory of the maps, limits of cgroups, timer frequencies.
#include <catch2/catch_test_macros.hpp>

#include "agent/base/memory.hpp"
#include "agent/programs/features.hpp"

namespace lb::agent {

TEST_CASE("REL-62 a flow costs two entries of 120 bytes, or of 168 for IPv6, beside its buckets") {
  constexpr std::uint32_t entries = 1 << 16;
  constexpr std::uint64_t buckets = 16ULL * entries;
  CHECK(full_bytes({BPF_MAP_TYPE_HASH, 16, 48, entries}, 4) == 120ULL * entries + buckets);
  CHECK(full_bytes({BPF_MAP_TYPE_LRU_HASH, 40, 72, entries}, 4) == 168ULL * entries + buckets);
}

TEST_CASE("arrays step by eight bytes, and those of each processor count for each") {
  CHECK(full_bytes({BPF_MAP_TYPE_ARRAY, 4, 4, 1000}, 4) == 8000);
  CHECK(full_bytes({BPF_MAP_TYPE_PERCPU_ARRAY, 4, 264, 1}, 4) == 1056);
}

TEST_CASE("memory limits as the kernel writes them") {
  CHECK(parse_limit("1048576\n") == 1048576);
  CHECK_FALSE(parse_limit("max\n"));
  CHECK_FALSE(parse_limit(""));
  CHECK_FALSE(parse_limit("9223372036854771712\n"));  // "no limit" in cgroup v1
}

TEST_CASE("the cgroup of a process, of both versions") {
  constexpr std::string_view text = "9:name=systemd:/init\n4:cpu,memory:/pods/one\n0::/unified/one\n";
  CHECK(cgroup_path(text, "memory") == "/pods/one");
  CHECK(cgroup_path(text, "") == "/unified/one");
  CHECK_FALSE(cgroup_path(text, "freezer"));
  CHECK_FALSE(cgroup_path("", ""));
}

TEST_CASE("REL-62: a cgroup's files, wherever its file system is mounted from") {
  CHECK(below_mount("/pods/one", "/") == "/pods/one");
  CHECK(below_mount("/", "/") == "");
  CHECK(below_mount("/../../other", "/../..") == "/other");  // as seen from inside a cgroup namespace
  CHECK(below_mount("/docker/a/b", "/docker/a") == "/b");
  CHECK(below_mount("/docker/a", "/docker/a") == "");
  CHECK_FALSE(below_mount("/docker/ab", "/docker/a"));
  CHECK_FALSE(below_mount("/", "/../.."));
}

TEST_CASE("REL-62 of several mounts of cgroups the one that has the path counts") {
  constexpr std::string_view mounts =
      "30 24 0:26 /.. /host/cgroup rw shared:9 - cgroup2 cgroup rw,nsdelegate\n"
      "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "32 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n";
  const auto own = cgroup_mount(mounts, "", "/pods/one");
  REQUIRE(own);
  CHECK(own->directory == "/sys/fs/cgroup");
  CHECK(own->root == "/");
  const auto outside = cgroup_mount(mounts, "", "/../other");
  REQUIRE(outside);
  CHECK(outside->directory == "/host/cgroup");
  const auto first_version = cgroup_mount(mounts, "memory", "/pods/one");
  REQUIRE(first_version);
  CHECK(first_version->directory == "/sys/fs/cgroup/memory");
  CHECK_FALSE(cgroup_mount(mounts, "cpu", "/pods/one"));
}

TEST_CASE("a measured timer frequency is the usual one next to it, or none") {
  CHECK(usual_hertz(251.3) == 250);
  CHECK(usual_hertz(96.0) == 100);
  CHECK(usual_hertz(299.0) == 300);
  CHECK(usual_hertz(1003.0) == 1000);
  CHECK(usual_hertz(275.0) == 0);
  CHECK(usual_hertz(0.0) == 0);
}

}  // namespace lb::agent
