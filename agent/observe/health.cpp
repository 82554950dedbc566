// SPDX-License-Identifier: Apache-2.0
// The probes' results and bodies.
#include "agent/observe/health.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <utility>

namespace lb::agent {
namespace {

namespace json = boost::json;
using Wall = std::chrono::system_clock::time_point;

/// Formats a time by RFC 3339 in UTC.
std::string timestamp(Wall time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

HttpResponse answer(bool good, const json::object& body) {
  return {good ? 200U : 503U, "application/json", json::serialize(body) + "\n"};
}

/// One writer writes both families, so they share their state.
json::object body_of(const std::string& updated, Wall now, bool healthy) {
  const json::object family = {{"lastUpdated", updated}, {"healthy", healthy}};
  return {{"lastUpdated", updated},
          {"currentTime", timestamp(now)},
          {"healthy", healthy},
          {"status", {{"IPv4", family}, {"IPv6", family}}}};
}

}  // namespace

void Health::queued(Moment now) {
  if (!queued_) {
    queued_ = now;
  }
}

void Health::applied(Moment now) {
  queued_.reset();
  applied_ = now;
}

bool Health::overdue(Moment now) const { return queued_ && now.steady - queued_->steady >= overdue_after; }

bool Health::healthy(Moment now) const {
  return ready() && !overdue(now) && uplinks_ == UplinkService::served;
}

/// The current time while changes are not overdue, as in kube-proxy; else the last time at which all were
/// written.
std::string Health::last_updated(Moment now) const {
  if (!applied_) {
    return "0001-01-01T00:00:00Z";  // Go's zero time
  }
  return timestamp(overdue(now) ? applied_->wall : now.wall);
}

HttpResponse Health::healthz(Moment now) const {
  const bool good = healthy(now);
  const bool eligible = eligibility_ == NodeEligibility::eligible;
  auto body = body_of(last_updated(now), now.wall, good);
  body["nodeEligible"] = eligible;
  return answer(good && eligible, body);
}

HttpResponse Health::livez(Moment now) const {
  const bool good = !overdue(now);
  return answer(good, body_of(last_updated(now), now.wall, good));
}

}  // namespace lb::agent
