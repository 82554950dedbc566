#include "agent/datapath/conntrack_tracking.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <utility>

#include "agent/netlink/conntrack_keepalive.hpp"

namespace lb::agent {
namespace {

/// Who flushes all rules, as nftables.service does when it starts, takes ours too.
constexpr std::chrono::seconds between_looks{30};
constexpr std::array families = {AF_INET, AF_INET6};

}  // namespace

ConntrackTracking::ConntrackTracking(boost::asio::io_context& context, const Features& features,
                                     Coexistence& coexistence, std::string table)
    : timer_(context), features_(features), coexistence_(coexistence), table_(std::move(table)) {}

void ConntrackTracking::start() {
  if (!features_.usable(Feature::ct_lookup)) {
    remove_kept(table_);
    return;
  }
  look();
  wait();
}

void ConntrackTracking::wait() {
  timer_.expires_after(between_looks);
  timer_.async_wait([this](const auto& stopped) {
    if (!stopped) {
      look();
      wait();
    }
  });
}

// A kernel without IPv6 needs, and has, no table of that family.
void ConntrackTracking::look() {
  std::string problem;
  for (const int family : families) {
    const auto error = keep_tracking(family, table_);
    if (error && family == AF_INET) problem = error.message();
  }
  if (problem != problem_ && !problem.empty()) {
    spdlog::warn(
        "cannot make the nftables table {}: {}; conntrack tracks connections only if other rules ask for it, "
        "and "
        "forged packets may take over what clients have straight to a backend where it does not",
        table_, problem);
  }
  if (problem != problem_) {
    coexistence_.set_tracking(problem.empty() ? "" : "conntrack: tracks only if rules of others ask for it");
  }
  problem_ = std::move(problem);
}

}  // namespace lb::agent
