// Visits the unassured tables first: a flow moves from there to the assured ones, never back.
#include "agent/tables/redirected_flows.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/tables/expiry.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

constexpr std::uint32_t step_entries = 512;
constexpr std::chrono::milliseconds between_steps{2};
constexpr std::size_t tables = 4;

/// The translated destination of packets of this entry: the backend or the client.
k8s::Address target_of(const lb_flow4& flow) { return k8s::address_of(flow.destination.address); }
k8s::Address target_of(const lb_flow6& flow) { return k8s::address_of(flow.destination); }

/// Whether the flow's translated packets bypass the policies. Redirected packets pass none, and packets
/// translated at egress have passed them before, with other addresses. A pod's packets to itself do not leave
/// the node.
bool passes_policies_by(const lb_track& track) {
  return track.side == LB_UPLINK_EGRESS ||
         (track.side == LB_UPLINK_INGRESS && track.path == LB_PATH_REDIRECT);
}

}  // namespace

RedirectedFlows::RedirectedFlows(boost::asio::io_context& context, maps::MapSet& maps,
                                 std::function<void(std::size_t entries)> ended)
    : timer_(context), maps_(maps), ended_(std::move(ended)) {}

void RedirectedFlows::end(std::vector<k8s::Prefix> towards) {
  towards_ = std::move(towards);
  table_ = erased_ = 0;
  cursor_ = {};
  timer_.cancel();
  if (!towards_.empty()) {
    pause();
  }
}

void RedirectedFlows::pause() {
  timer_.expires_after(between_steps);
  timer_.async_wait([this](const auto& stopped) {
    if (!stopped) {
      step();
    }
  });
}

bool RedirectedFlows::is_there(const k8s::Address& address) const {
  return std::ranges::any_of(towards_, [&](const auto& range) { return range.contains(address); });
}

maps::error_code RedirectedFlows::step_tables() {
  switch (table_) {
    case 0:
      return step_table(maps_.unassured4);
    case 1:
      return step_table(maps_.unassured6);
    case 2:
      return step_table(maps_.flows4);
    default:
      return step_table(maps_.flows6);
  }
}

void RedirectedFlows::step() {
  if (const auto error = step_tables()) {
    spdlog::error(
        "cannot walk the flow tables ({}): flows to peers with an IPsec policy may go on in the clear",
        error.message());
    return;
  }
  if (cursor_.finished) {
    cursor_ = {};
    ++table_;
  }
  if (table_ < tables) {
    pause();
  } else {
    ended_(erased_);
  }
}

/// Erases forward entries first, as in expiry, so that no request is translated without a reply entry.
template <class Key, class Flow>
maps::error_code RedirectedFlows::step_table(maps::HashMap<Key, Flow>& table) {
  std::vector<Key> gone;
  const auto error = table.step(cursor_, step_entries, [&](const Key& key, const Flow& flow) {
    if (passes_policies_by(flow.track) && is_there(target_of(flow))) {
      const bool is_request = flow.track.direction == LB_FORWARD;
      gone.push_back(is_request ? key : other_key(key, flow));
      gone.push_back(is_request ? other_key(key, flow) : key);
    }
  });
  for (const auto& key : gone) {
    erased_ += table.erase(key) ? 0 : 1;
  }
  return error;
}

}  // namespace lb::agent
