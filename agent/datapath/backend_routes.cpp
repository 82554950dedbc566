// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/backend_routes.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

namespace lb::agent {
namespace {

/// Work of one turn: two or three milliseconds.
constexpr std::uint64_t units_of_turn = 8192;

/// Cost of one route lookup.
constexpr std::uint64_t units_of_question = 24;

/// For this many lookups, one call of check() passes without a new round: less than a hundredth of a
/// processor.
constexpr std::size_t questions_of_pause = 4096;

/// Addresses outside that stand for a client: those of documentation (RFC 5737, RFC 3849).
constexpr k8s::Address some_client4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, 1}};
constexpr k8s::Address some_client6{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

std::set<std::uint32_t> indices_of(const std::vector<Device>& devices) {
  std::set<std::uint32_t> indices;
  for (const auto& device : devices) {
    indices.insert(device.index);
  }
  return indices;
}

}  // namespace

BackendRoutes::BackendRoutes(boost::asio::io_context& context, Sources sources, Coexistence& coexistence)
    : context_(context), sources_(sources), coexistence_(coexistence) {}

void BackendRoutes::check() {
  changed_ = routes_.changed() || changed_;
  for (const auto& message : report_.messages(found_, std::chrono::steady_clock::now())) {
    spdlog::log(message.level == LogMessage::Level::info ? spdlog::level::info : spdlog::level::warn, "{}",
                message.text);
  }
  if (pause_ > 0) {
    --pause_;
  } else if (changed_ && !round_ && sources_.node.network().whole()) {
    begin();
  }
}

void BackendRoutes::begin() {
  changed_ = false;
  const auto& served = sources_.served;
  round_ = std::make_unique<Round>(
      Round{UnservedDevices(sources_.node.network().links(), served.uplinks(), indices_of(served.pods())),
            OutsideBackends([this](const auto& after) { return sources_.cluster.plans_after(after); }),
            {},
            0});
  take_turn();
}

/// Of backends elsewhere the route to them matters. Replies of those on this node pass the stack and then a
/// route to the client, which may depend on the backend: a rule by source, as for pods on another network
/// interface.
std::optional<UnservedDevice> BackendRoutes::unserved_at(const OutsideBackends::Backend& backend) const {
  const auto hop = routes_.next_hop(backend.address);
  if (backend.place == BackendPlace::elsewhere || hop.device == 0) {
    return round_->devices.at(hop);
  }
  const auto client = backend.address.family() == k8s::Family::ipv4 ? some_client4 : some_client6;
  const auto reply = routes_.next_hop(client, {backend.address, hop.device});
  if (reply.kind == HopKind::encapsulated || reply.device == hop.device ||
      reply.device == routes_.next_hop(client).device) {
    return std::nullopt;
  }
  return round_->devices.at(reply);
}

/// Each turn is a separate handler, so that other events are handled between two.
void BackendRoutes::take_turn() {
  WorkBudget budget(units_of_turn);
  while (const auto backend = round_->backends.next(budget)) {
    budget.spend(units_of_question);
    ++round_->asked;
    const auto device = unserved_at(*backend);
    if (!device) {
      continue;
    }
    auto& found = round_->found[device->label];
    if (found.count++ > 0) {
      continue;
    }
    found.example = fmt::format("{} ({})", backend->service, backend->address.text());
    found.encapsulates = device->encapsulates;
  }
  if (round_->backends.is_at_end()) {
    return end();
  }
  boost::asio::post(context_, [this] { take_turn(); });
}

void BackendRoutes::end() {
  pause_ = round_->asked / questions_of_pause;
  found_ = std::move(round_->found);
  round_.reset();
  coexistence_.set_unserved(unserved_text(found_));
}

}  // namespace lb::agent
