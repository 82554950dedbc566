// SPDX-License-Identifier: Apache-2.0
// A golden scenario: sections of text, each a step that does something or a picture of what must then be so.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lb::test {

/// `-- WORD ARGUMENT --` and the lines below it. Words that do: `node NAME`, `option NAME VALUE`, `put FILE`,
/// `delete FILE`. Words that show: `lines` (all map contents), `changed` (services reported in the last
/// batch), `complaints` (new ones).
struct Section {
  std::string word;
  std::string argument;
  std::vector<std::string> body;

  [[nodiscard]] bool shows() const;
};

struct Scenario {
  std::vector<std::string>
      preamble;  ///< a title, then the rows that it shows: "SEM-4, SEM-21 choice H, REL-52"
  std::vector<Section> sections;
};

/// All files of tests/golden/features, by name.
[[nodiscard]] std::vector<std::filesystem::path> scenario_paths();

[[nodiscard]] Scenario read_scenario(const std::filesystem::path& path);
void write_scenario(const std::filesystem::path& path, const Scenario& scenario);

/// Plays the steps; the same scenario with what its pictures really show.
[[nodiscard]] Scenario play(const Scenario& scenario);

/// What of `expected` is missing (-), and what there is instead (+); empty if they are equal.
[[nodiscard]] std::string difference(const std::vector<std::string>& expected,
                                     const std::vector<std::string>& actual);

}  // namespace lb::test
