// SPDX-License-Identifier: Apache-2.0
// Formats rows in columns, for the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lb::agent {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

class Grid {
 public:
  explicit Grid(std::vector<Column> columns);

  /// `row` must have as many cells as there are columns.
  void add(std::vector<std::string> row);
  /// A line of titles, then the rows; columns are as wide as their widest cell, and no line ends in blanks.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> column_widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lb::agent
