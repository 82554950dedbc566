#include "agent/datapath/map_resizer.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <random>
#include <utility>

namespace lb::agent {
namespace {

/// All nodes' tables are full at one time, and a new agent asks the API for everything: not all at once.
constexpr std::chrono::milliseconds spread{30'000};

}  // namespace

RoomCare::RoomCare(boost::asio::io_context& context, const AgentOptions& options, const Tables& tables,
                   const Datapath& datapath, const Health& health,
                   std::function<void(const Sizes&)> begin_again)
    : timer_(context),
      options_(options),
      tables_(tables),
      datapath_(datapath),
      health_(health),
      begin_again_(std::move(begin_again)) {}

void RoomCare::make() {
  if (options_.growth == Growth::off || found_ || waits_ || !tables_.larger()) {
    return;
  }
  const bool herd = options_.manifests.empty() && health_.ready();
  waits_ = true;
  timer_.expires_after(std::chrono::milliseconds(herd ? std::random_device()() % spread.count() : 0));
  timer_.async_wait([this](const auto& error) {
    waits_ = false;
    if (!error) {
      grow();
    }
  });
}

void RoomCare::grow() {
  auto sizes = tables_.larger();
  if (!sizes) {
    return;
  }
  sizes->flows = options_.sizes.flows;
  sizes->young = options_.sizes.young;
  sizes->maglev = options_.sizes.maglev;
  if (const auto lack = datapath_.lack_of_memory(*sizes)) {
    if (std::exchange(lack_, *lack) != *lack) {
      spdlog::error("tables are too small and cannot be made larger: {}", *lack);
    }
    return;
  }
  found_ = true;
  begin_again_(*sizes);
}

}  // namespace lb::agent
