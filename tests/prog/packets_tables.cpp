// The tables of fixtures/ against the programs: packet in, outcome, return code, packet out, byte for byte.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/prog/packets_referee.hpp"
#include "tests/prog/packets_table.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t checksum_complete =
    1U << 2;  // BPF_F_TEST_SKB_CHECKSUM_COMPLETE, newer than some headers

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t count_of(const std::string& directory) {
  const std::filesystem::directory_iterator entries(directory);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Looks at the TCP and UDP packets of a step whose bytes are all scapy's; how many there are.
std::size_t check_sums(const std::string& name, const Step& step) {
  const auto& trial = step.trial;
  if (!step.words.empty() || trial.outcomes == "malformed" || trial.outcomes == "other_protocol" ||
      trial.outcomes == "left_to_tc")
    return 0;
  std::size_t packets = 0;
  for (const auto& text : {trial.in, trial.out}) {
    if (text.find_first_of("pqrstz") != std::string::npos) continue;
    const auto packet = packet_of(text, {});
    if (!layout_of(packet) || trial.outcomes.starts_with("fragment")) continue;
    INFO(name << ", line " << step.line);
    CHECK((is_fragment(packet) || sums_right(packet)));
    ++packets;
  }
  return packets;
}

}  // namespace

TEST_CASE("tables of packets give what scapy says") {
  const auto file = GENERATE(from_range(table_files()));
  const auto table = read_table(file);
  INFO(file);
  const auto result = run_table(table);
  CHECK(result.packets >= table.cases.size());
  for (const auto& failure : result.failures) FAIL_CHECK(failure);
}

TEST_CASE("the tables are what generate.py writes") {
  std::string directory = std::filesystem::temp_directory_path() / "lb_tables.XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const auto command = "/usr/bin/python3 " + fixtures() + "generate.py " + directory;
  CHECK(std::system(command.c_str()) == 0);  // needs scapy
  auto files = table_files();
  files.emplace_back("world.txt");
  CHECK(count_of(directory) == files.size());
  for (const auto& file : files) {
    INFO(file);
    CHECK(content_of(fixtures() + file) == content_of(directory + "/" + file));
  }
  std::filesystem::remove_all(directory);
}

/// Answers that quote less than the packet had, and copies of other lengths: a packet that is cut has no such
/// sum any more, of which the kernel's check knows nothing.
constexpr std::array cutting = {"egress.table",   "fragments_early.table", "pods.table",    "refused.table",
                                "sessions.table", "unanswered.table",      "verdicts.table"};

// The kernel keeps a sum over the packet, as hardware would, and checks after the run that it is still right.
TEST_CASE("sums made by hardware stay right through every rewrite") {
  for (const auto& file : table_files()) {
    if (std::ranges::find(cutting, file) != cutting.end()) continue;
    INFO(file);
    const auto result = run_table(read_table(file), checksum_complete);
    for (const auto& failure : result.failures) FAIL_CHECK(failure);
  }
}

TEST_CASE("the referee of the tests and scapy agree on the checksums of every packet") {
  std::size_t packets = 0;
  for (const auto& file : table_files()) {
    const auto table = read_table(file);
    for (const auto& one : table.cases) {
      for (const auto& step : one.steps) packets += check_sums(one.name, step);
    }
  }
  CHECK(packets > 1000);
}

}  // namespace lb::test
