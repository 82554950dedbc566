// SPDX-License-Identifier: Apache-2.0
// The output of a benchmark: cells of a Markdown table for people, and for bench/lib/report.py the same
// figures as records, one JSON object per line, in the file that BENCH_RECORDS names (none if it is unset).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lb::bench {

/// Exit code of a benchmark that ran, but missed a limit on a figure. Errors are 1.
constexpr int figure_missed = 3;

/// A figure of several rounds; with one round it is just a value.
struct Spread {
  double value = 0;  ///< the median
  double min = 0;
  double max = 0;
  std::size_t rounds = 1;
};

inline Spread spread_of(std::vector<double> values) {
  if (values.empty()) {
    throw std::runtime_error("no round counted");
  }
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back(), values.size()};
}

inline Spread single(double value) { return {.value = value}; }

/// "117 (112–125)"
inline std::string cell(const Spread& spread, int digits = 0) {
  if (spread.rounds == 1) {
    return fmt::format("{:.{}f}", spread.value, digits);
  }
  return fmt::format("{:.{}f} ({:.{}f}–{:.{}f})", spread.value, digits, spread.min, digits, spread.max,
                     digits);
}

struct Record {
  const char* part;
  std::string series;
  const char* unit;
  Spread figure;
  const char* by = nullptr;  ///< the name of the dimension that the figure depends on, if any
  std::uint64_t size = 0;    ///< the size in that dimension
};

/// Names come from the benchmarks and need no escaping.
inline std::string json_of(const Record& record) {
  auto line = fmt::format(R"({{"part": "{}", "series": "{}")", record.part, record.series);
  if (record.by != nullptr) {
    line += fmt::format(R"(, "by": "{}", "size": {})", record.by, record.size);
  }
  line += fmt::format(R"(, "unit": "{}", "value": {:.6g})", record.unit, record.figure.value);
  if (record.figure.rounds > 1) {
    line += fmt::format(R"(, "least": {:.6g}, "most": {:.6g})", record.figure.min, record.figure.max);
  }
  return line + "}";
}

inline void keep(const Record& record) {
  const char* path = std::getenv("BENCH_RECORDS");
  if (path == nullptr || *path == '\0') {
    return;
  }
  std::ofstream file(path, std::ios::app);
  file << json_of(record) << '\n' << std::flush;
  if (!file) {
    throw std::runtime_error(fmt::format("cannot write to {}, which BENCH_RECORDS names", path));
  }
}

/// Throws an error with a message if less memory is free than the benchmark needs at its largest size.
inline void need_memory(std::uint64_t mebibytes) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kibibytes = 0;
  while (file >> word && word != "MemAvailable:") {
  }
  if (!(file >> kibibytes)) {
    throw std::runtime_error("/proc/meminfo does not say how much memory is free");
  }
  if (kibibytes / 1024 < mebibytes) {
    throw std::runtime_error(
        fmt::format("needs {} MiB of free memory, and {} are", mebibytes, kibibytes / 1024));
  }
}

}  // namespace lb::bench
