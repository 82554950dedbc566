// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/kept_table.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "agent/base/repeat.hpp"
#include "agent/netlink/conntrack_keepalive.hpp"

namespace lb::agent {
namespace {

constexpr std::chrono::seconds check_interval{30};

}  // namespace

KeptTable::KeptTable(boost::asio::io_context& context, std::string name, Make make_in_family,
                     std::string_view consequence, std::function<void()> check)
    : timer_(context),
      watch_(context, name, check),
      name_(std::move(name)),
      make_in_family_(make_in_family),
      consequence_(consequence),
      check_(std::move(check)) {}

void KeptTable::start() {
  watch_.start();
  check_();
  repeat(timer_, check_interval, [this] { check_(); });
}

bool KeptTable::exists() const { return !families_with(name_).empty(); }

bool KeptTable::make() {
  const auto error = keep_in_both_families(make_in_family_, name_);
  auto problem = error ? error.message() : std::string();
  if (problem != problem_ && !problem.empty()) {
    spdlog::warn("cannot make the nftables table {}: {}; {}", name_, problem, consequence_);
  }
  problem_ = std::move(problem);
  return problem_.empty();
}

void KeptTable::remove() { remove_kept(name_); }

}  // namespace lb::agent
