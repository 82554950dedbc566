#include "agent/datapath/conntrack_tracking.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "agent/base/repeat.hpp"
#include "agent/netlink/conntrack_keepalive.hpp"

namespace lb::agent {
namespace {

/// Fallback interval. Whoever flushes all rules, like nftables.service at its start, deletes our table too,
/// and the kernel notifies us.
constexpr std::chrono::seconds check_interval{30};

}  // namespace

ConntrackTracking::ConntrackTracking(boost::asio::io_context& context, const Features& features,
                                     Coexistence& coexistence, std::string table)
    : timer_(context),
      watch_(context, table, [this] { ensure(); }),
      features_(features),
      coexistence_(coexistence),
      table_(std::move(table)) {}

void ConntrackTracking::start() {
  if (!features_.usable(Feature::ct_lookup)) {
    remove_kept(table_);
    return;
  }
  watch_.start();
  ensure();
  repeat(timer_, check_interval, [this] { ensure(); });
}

void ConntrackTracking::ensure() {
  const auto error = keep_in_both_families(keep_tracking, table_);
  auto problem = error ? error.message() : std::string();
  if (problem != problem_ && !problem.empty()) {
    spdlog::warn(
        "cannot make the nftables table {}: {}; conntrack tracks connections only if other rules ask for it, "
        "and where none does, forged packets may take over connections that clients have straight to a "
        "backend",
        table_, problem);
  }
  if (problem != problem_) {
    coexistence_.set_tracking(problem.empty() ? "" : "conntrack: tracks only if rules of others ask for it");
  }
  problem_ = std::move(problem);
}

}  // namespace lb::agent
