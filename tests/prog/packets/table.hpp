// A table of packets (fixtures/*.table): reads it, runs it against a World and says where they differ.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/prog/packets/world.hpp"

namespace lb::test {

/// One line about packets, as text.
struct Trial {
  Hook hook = Hook::tc_in;
  std::string device;
  std::string code;
  std::string outcomes;
  std::string in;
  std::string out;   ///< equal to `in` where nothing changes
  std::string verb;  ///< packet, prefixes or until
};

/// A packet or a change of the maps.
struct Step {
  int line = 0;
  Words words;  ///< of a `do` or `tables` line; none for a packet
  Trial trial;
};

struct Case {
  std::string name;
  std::vector<Step> steps;
};

struct Table {
  Settings settings;
  std::string settings_text;  ///< the lines that `settings` come from
  std::vector<Case> cases;
};

/// Names of the files, sorted.
[[nodiscard]] std::vector<std::string> table_files();
/// Throws std::runtime_error with the line of what it cannot read.
[[nodiscard]] Table read_table(const std::string& file);
struct NamedTable {
  std::string file;
  Table table;
};
/// All of them, those of the same settings beside each other.
[[nodiscard]] std::vector<NamedTable> tables_by_settings();

/// Values of the letters in packets: ports that the programs chose.
using Letters = std::map<char, std::uint16_t>;
/// Letters are filled in; unknown ones throw.
[[nodiscard]] Bytes packet_of(const std::string& text, const Letters& letters);

struct TableResult {
  std::vector<std::string> failures;  ///< one text each: case, line, what was expected and what came
  std::size_t packets = 0;
  Counts counts{};
};
/// Runs tables: all cases, each from a fresh state, and goes on behind a failure with the next case. Programs
/// stay loaded from one table to the next while the settings are the same, because on an emulated processor
/// that takes longer than the packets.
class TableRunner {
 public:
  /// `skb_flags` are those of bpf(BPF_PROG_TEST_RUN), for the tc hooks.
  [[nodiscard]] TableResult run(const Table& table, std::uint32_t skb_flags = 0);

 private:
  std::optional<World> world_;
  std::string settings_;  ///< of the world
};

}  // namespace lb::test
