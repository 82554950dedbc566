// SPDX-License-Identifier: Apache-2.0
// Stores the current complaints; two are equal if object, file and reason are.
#include "k8s/objects/complaints.hpp"

#include <algorithm>

namespace lb::k8s {
namespace {

std::string_view without_line(const std::string& where) {
  return std::string_view(where).substr(0, where.rfind(':'));
}

bool same(const Complaint& a, const Complaint& b) {
  return a.object == b.object && a.reason == b.reason && without_line(a.where) == without_line(b.where);
}

}  // namespace

void ComplaintBook::set(const std::string& owner, std::vector<Complaint> complaints, TimePoint now) {
  std::vector<Entry> fresh;
  auto& old = entries_[owner];
  for (auto& complaint : complaints) {
    const auto known =
        std::ranges::find_if(old, [&](const Entry& entry) { return same(entry.complaint, complaint); });
    const bool is_known = known != old.end();
    fresh.push_back({std::move(complaint), is_known ? known->since : now, is_known && known->reported});
  }
  old = std::move(fresh);
  if (old.empty()) {
    entries_.erase(owner);
  }
}

void ComplaintBook::report_settled(Sink& sink, TimePoint now, std::size_t most) {
  for (auto& [owner, entries] : entries_) {
    for (auto& entry : entries) {
      if (!entry.reported && now - entry.since >= delay) {
        if (most-- == 0) {
          return;
        }
        entry.reported = true;
        sink.complain(entry.complaint);
      }
    }
  }
}

void ComplaintBook::report_all(Sink& sink) { report_settled(sink, TimePoint::max()); }

std::optional<ComplaintBook::TimePoint> ComplaintBook::due() const {
  std::optional<TimePoint> earliest;
  for (const auto& [owner, entries] : entries_) {
    for (const auto& entry : entries) {
      if (!entry.reported && (!earliest || entry.since + delay < *earliest)) {
        earliest = entry.since + delay;
      }
    }
  }
  return earliest;
}

}  // namespace lb::k8s
