// One agent after another, each with larger tables than the one before.
#include "agent/run/run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "agent/base/error.hpp"
#include "agent/base/log.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/run/end_signals.hpp"
#include "agent/run/serve.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {
namespace {

std::string sizes_text(const Sizes& sizes) {
  return fmt::format("{} frontends, {} source ranges, {} service ports, {} backends, {} slots",
                     sizes.frontends, sizes.ranges, sizes.services, sizes.backends, sizes.slots);
}

}  // namespace

/// A growth that fails is not tried again.
int run_agent(AgentOptions options) {
  start_log(options.log_level, options.log_format);
  EndSignals ends;
  const maps::Pins pins(options.pins);
  const auto lock = PinLock::take(pins);
  auto fitting = options.sizes;
  auto readiness = Readiness::never;
  for (;;) {
    try {
      const auto larger = serve(options, readiness, ends);
      if (!larger) {
        return 0;
      }
      fitting = std::exchange(options.sizes, larger->sizes);
      readiness = larger->readiness;
      spdlog::info("tables are too small for what is planned; making them anew: {}",
                   sizes_text(options.sizes));
    } catch (const StartError& error) {
      if (options.sizes == fitting) {
        throw;
      }
      spdlog::error("the tables stay as small as they are: {}", error.what());
      options.sizes = fitting;
      options.growth = Growth::off;
    }
  }
}

}  // namespace lb::agent
