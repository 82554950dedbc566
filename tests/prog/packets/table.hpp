// SPDX-License-Identifier: Apache-2.0
// A table of packets (fixtures/*.table): reads it, runs it against a World and reports the differences.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/prog/packets/world.hpp"

namespace lb::test {

/// One line with a packet, as text.
struct PacketTest {
  Hook hook = Hook::tc_in;
  std::string device;
  std::string code;
  std::string outcomes;
  std::string in;
  std::string out;   ///< equal to `in` if the packet is unchanged
  std::string verb;  ///< packet, forwarded, through, prefixes, flood, storm or until
};

/// A packet or a change of the maps.
struct Step {
  int line = 0;
  Words words;  ///< words of a `do` or `tables` line; empty for a packet
  PacketTest test;
};

struct Case {
  std::string name;
  std::vector<Step> steps;
};

struct Table {
  Settings settings;
  std::string settings_text;  ///< the lines of `settings`
  std::vector<Case> cases;
};

/// The sorted names of the table files.
[[nodiscard]] std::vector<std::string> table_files();
/// Throws std::runtime_error with the number of a line that it cannot parse.
[[nodiscard]] Table read_table(const std::string& file);
struct NamedTable {
  std::string file;
  Table table;
};
/// All tables, or with SLUICE_CASES_SHARE=N one of N of their cases, by the seed; those with the same
/// settings are adjacent.
[[nodiscard]] std::vector<NamedTable> tables_by_settings();

/// Values of the placeholders in packets: ports that the programs chose.
using Placeholders = std::map<char, std::uint16_t>;
/// Parses a packet and substitutes placeholders; unknown placeholders throw.
[[nodiscard]] Bytes packet_of(const std::string& text, const Placeholders& placeholders);

struct TableResult {
  std::vector<std::string> failures;  ///< one text per failure: case, line, expected and actual result
  std::size_t packets = 0;
  Counts counts{};
};
/// Runs all cases of tables, each from a fresh state; a failure ends its case only. Programs stay loaded for
/// the next table if the settings are the same, because on an emulated processor loading takes longer than
/// the packets.
class TableRunner {
 public:
  /// `skb_flags` are those of bpf(BPF_PROG_TEST_RUN), for the tc hooks and packets that keep their length: a
  /// truncated packet has no valid complete sum, but the kernel's check does not take that into account.
  [[nodiscard]] TableResult run(const Table& table, std::uint32_t skb_flags = 0);

 private:
  std::unique_ptr<World> world_;
  std::string settings_;  ///< settings of the world
};

}  // namespace lb::test
