// SPDX-License-Identifier: Apache-2.0
#include "agent/run/plan_writer.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>
#include <utility>

#include "agent/base/clock.hpp"

namespace lb::agent {
namespace {

/// The namespaces whose sockets our hooks translate.
Namespaces namespaces_of(SocketScope scope) {
  return scope == SocketScope::all ? Namespaces::all : Namespaces::own;
}

/// Logs what became of sockets, and a lasting problem once.
StaleUdpSocketCloser::Report log_stale_sockets() {
  return [last = std::string()](const UdpRound& round) mutable {
    if (round.reconnected > 0) {
      spdlog::info("connected {} UDP sockets again whose backend is gone", round.reconnected);
    }
    if (round.ended > 0) {
      spdlog::info("reset {} connected UDP sockets whose backend is gone", round.ended);
    }
    if (round.problem != std::exchange(last, round.problem) && !round.problem.empty()) {
      spdlog::warn("cannot reset {} UDP sockets whose backend is gone: {}", round.left, round.problem);
    }
  };
}

}  // namespace

PlanWriter::PlanWriter(boost::asio::io_context& context, const UdpCleanup& cleanup, SocketScope scope,
                       Dependencies dependencies, std::function<void(const Moment& end)> wrote)
    : dependencies_(dependencies),
      stale_udp_sockets_(context, cleanup, namespaces_of(scope), log_stale_sockets()),
      wrote_(std::move(wrote)) {
  dependencies_.tables.on_udp_change([this] { stale_udp_sockets_.check_soon(); });
}

void PlanWriter::apply(Batch batch, std::vector<PlanChange> changes) {
  const auto count = changes.size();
  const auto start = Moment::now();
  dependencies_.tables.apply(batch, std::move(changes));
  const auto end = Moment::now();
  measure(batch, start, end);
  spdlog::debug("wrote {} services in {} µs", count,
                std::chrono::duration_cast<std::chrono::microseconds>(end.steady - start.steady).count());
  wrote_(end);
}

/// The first batch has no change latency, because no event triggered it.
void PlanWriter::measure(Batch batch, const Moment& start, const Moment& end) const {
  dependencies_.metrics.published(batch == Batch::whole ? Sync::full : Sync::partial,
                                  end.steady - start.steady);
  if (!dependencies_.tables.refuses_all()) {
    dependencies_.metrics.synced(end.wall);
  }
  if (const auto burst = dependencies_.intake.burst(); burst && batch == Batch::changes) {
    dependencies_.metrics.changes_written(end.steady - burst->steady);
  }
}

void PlanWriter::measure_triggers(Cluster& cluster) const {
  const auto now = unix_nanoseconds(std::chrono::system_clock::now());
  for (const auto& [key, times] : cluster.take_triggers()) {
    if (dependencies_.tables.failed(key.service)) {
      continue;
    }
    for (const auto time : times) {
      dependencies_.metrics.programmed(key.family, std::chrono::nanoseconds(now - time));
    }
  }
}

}  // namespace lb::agent
