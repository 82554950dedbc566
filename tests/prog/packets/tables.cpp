// SPDX-License-Identifier: Apache-2.0
// The tables of fixtures/ against the programs: packet in, outcome, return code, packet out, byte for byte.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"
#include "tests/prog/packets/decode.hpp"
#include "tests/prog/packets/reference.hpp"
#include "tests/prog/packets/table.hpp"

namespace lb::test {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr std::uint32_t checksum_complete =
    1U << 2;  // BPF_F_TEST_SKB_CHECKSUM_COMPLETE, which some headers lack

/// Checks the checksums of TCP and UDP packets in steps that scapy built completely; returns their number.
std::size_t check_sums(const std::string& name, const Step& step) {
  const auto& test = step.test;
  if (!step.words.empty() || test.outcomes == "malformed" || test.outcomes == "other_protocol" ||
      test.outcomes == "left_to_tc") {
    return 0;
  }
  std::size_t packets = 0;
  for (const auto& text : {test.in, test.out}) {
    if (text.find_first_of("pqrstz") != std::string::npos) {
      continue;
    }
    const auto packet = packet_of(text, {});
    if (!layout_of(packet) || test.outcomes.starts_with("fragment")) {
      continue;
    }
    INFO(name << ", line " << step.line);
    CHECK((is_fragment(packet) || sums_right(packet)));
    ++packets;
  }
  return packets;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream text(content_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// The first few of `lines` that `others` lacks.
std::vector<std::string> missing(const std::vector<std::string>& lines,
                                 const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  std::vector<std::string> result;
  for (const auto& line : lines) {
    if (result.size() < 5 && !known.contains(line)) {
      result.push_back(line);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("tables of packets give what scapy says") {
  TableRunner runner;
  for (const auto& [file, table] : tables_by_settings()) {
    INFO(file);
    const auto result = runner.run(table);
    CHECK(result.packets >= table.cases.size());
    for (const auto& failure : result.failures) {
      FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("cases.txt, which people review, lists the cases that are run") {
  INFO("run tests/prog/fixtures/generate.py --write");
  const auto reviewed = lines_of(source_path("tests/prog/fixtures/cases.txt"));
  const auto run = lines_of(fixtures() + "cases.txt");
  CHECK(missing(reviewed, run) == std::vector<std::string>{});
  CHECK(missing(run, reviewed) == std::vector<std::string>{});
  CHECK((reviewed == run));  // also in order; in parentheses, or a failure prints both whole
}

// The kernel keeps a sum over the packet, as hardware would (CHECKSUM_COMPLETE), and checks after the run
// that it is still correct.
TEST_CASE("sums made by hardware stay right through every rewrite") {
  TableRunner runner;
  for (const auto& [file, table] : tables_by_settings()) {
    INFO(file);
    const auto result = runner.run(table, checksum_complete);
    for (const auto& failure : result.failures) {
      FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("two packets are compared field by field") {
  const auto file = read_table("flows.table");
  const auto& test = file.cases.at(0).steps.at(0).test;
  const auto text = compare_packets(packet_of(test.in, {}), packet_of(test.out, {}));
  CHECK_THAT(text, ContainsSubstring("    TCP flags: SYN\n"));
  CHECK_THAT(text, ContainsSubstring("  - IPv4 ttl: 64\n  + IPv4 ttl: 63\n"));
  CHECK_THAT(text, ContainsSubstring("  - TCP destination port: 80\n  + TCP destination port: 8080\n"));
}

TEST_CASE("the reference of the tests and scapy agree on the checksums of every packet") {
  std::size_t packets = 0;
  for (const auto& file : table_files()) {
    const auto table = read_table(file);
    for (const auto& one : table.cases) {
      for (const auto& step : one.steps) {
        packets += check_sums(one.name, step);
      }
    }
  }
  CHECK(packets > 1000);
}

}  // namespace lb::test
