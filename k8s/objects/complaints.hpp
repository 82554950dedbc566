// SPDX-License-Identifier: Apache-2.0
// The current complaints, and which of them have been reported: each once, after it has lasted for a while.
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "k8s/objects/source.hpp"

namespace lb::k8s {

/// Complaints by owner (a file, an object). The same complaint on another line counts as the same.
class ComplaintBook {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// A complaint is reported only if it lasts this long: files are written in steps, objects move between
  /// files.
  static constexpr std::chrono::milliseconds delay{250};

  /// Replaces all complaints of `owner`; an empty list clears them. Compares each with each of the former
  /// ones.
  void set(const std::string& owner, std::vector<Complaint> complaints, TimePoint now);
  /// Reports complaints that have lasted for `delay` and were not reported, `most` of them.
  void report_settled(Sink& sink, TimePoint now, std::size_t most = std::numeric_limits<std::size_t>::max());
  /// Reports all complaints that were not reported.
  void report_all(Sink& sink);
  /// When report_settled() will have something to report; nullopt if never.
  [[nodiscard]] std::optional<TimePoint> due() const;

 private:
  struct Entry {
    Complaint complaint;
    TimePoint since;
    bool reported;
  };

  std::map<std::string, std::vector<Entry>> entries_;
};

}  // namespace lb::k8s
