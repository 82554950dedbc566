// SPDX-License-Identifier: Apache-2.0
// Formats rows in columns: computes widths first, then the lines.
#include "agent/commands/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/base/escape.hpp"

namespace lb::agent {

Grid::Grid(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Grid::add(std::vector<std::string> row) {
  row.resize(columns_.size());
  for (auto& cell : row) {
    cell = escaped(cell);
  }
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Grid::column_widths() const {
  std::vector<std::size_t> widths;
  widths.reserve(columns_.size());
  for (const auto& column : columns_) {
    widths.push_back(column.title.size());
  }
  for (const auto& row : rows_) {
    for (std::size_t at = 0; at < row.size(); ++at) {
      widths[at] = std::max(widths[at], row[at].size());
    }
  }
  return widths;
}

std::string Grid::text() const {
  const auto width = column_widths();
  std::string text;
  const auto line = [&](const auto& cell) {
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      const auto& format = columns_[at].align == Align::right ? "{:>{}}  " : "{:<{}}  ";
      text += fmt::format(fmt::runtime(format), cell(at), width[at]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  line([this](std::size_t at) { return columns_[at].title; });
  for (const auto& row : rows_) {
    line([&row](std::size_t at) { return row[at]; });
  }
  return text;
}

}  // namespace lb::agent
