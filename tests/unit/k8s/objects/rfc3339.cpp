// SPDX-License-Identifier: Apache-2.0
// Timestamps as the API writes them, and invalid ones.
#include "k8s/objects/rfc3339.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

using lb::k8s::unix_nanoseconds;

TEST_CASE("k8s times: RFC 3339 with and without a fraction, in any zone, as Go reads it") {
  struct Row {
    const char* text;
    std::int64_t nanoseconds;
  };
  const Row rows[] = {
      {"1970-01-01T00:00:00Z", 0},
      {"2026-11-21T20:00:00Z", 1795291200'000000000},
      {"2026-11-21T20:00:00.123456Z", 1795291200'123456000},
      {"2026-11-21T20:00:00.1Z", 1795291200'100000000},
      {"2026-11-21T20:00:00.123456789Z", 1795291200'123456789},
      {"2026-11-21T20:00:00.1234567899Z", 1795291200'123456789},
      {"2026-11-21T21:30:00.5+01:30", 1795291200'500000000},
      {"2026-11-21T15:00:00-05:00", 1795291200'000000000},
      {"2024-02-29T00:00:00Z", 1709164800'000000000},
      {"1969-12-31T23:59:59.5Z", -500000000},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(unix_nanoseconds(row.text) == row.nanoseconds);
  }
}

TEST_CASE("k8s times: everything else is none") {
  for (const char* text :
       {"", "now", "2026-11-21", "2026-11-21T20:00:00", "2026-11-21 20:00:00Z", "2026-11-21T20:00:00.Z",
        "2026-11-21T20:00:00z", "2026-11-21T20:00:00+0100", "2026-11-21T20:00:00+01", "2026-11-21T20:00:00.1",
        "2026-13-21T20:00:00Z", "2026-02-29T20:00:00Z", "2026-11-31T20:00:00Z", "2026-11-21T25:00:00Z",
        "2026-11-21T20:00:00Z ", "2026-11-21T20:00:00ZZ", "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z",
        "2026-11-21T20:00:00.1234567890123456789012345678901234567890123456789Z"}) {
    CAPTURE(text);
    CHECK_FALSE(unix_nanoseconds(text));
  }
  CHECK_FALSE(unix_nanoseconds(std::string("2026-11-21T20:00:00Z\0", 21)));
  CHECK_FALSE(unix_nanoseconds(std::string("2026-11-21T20:00:0\0Z", 20)));
}
