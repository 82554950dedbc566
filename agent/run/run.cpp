// One agent after another, each with tables of other sizes than the one before.
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

const char* reason(SizeChange change) {
  return change == SizeChange::smaller ? "slots were mostly free"
                                       : "tables are too small for what is planned";
}

void give_up(AgentOptions& options, SizeChange change, const StartError& error) {
  if (change == SizeChange::smaller) {
    spdlog::error("the table of slots stays as large as it is: {}", error.what());
    options.shrink_after = 0;
  } else {
    spdlog::error("the tables stay as small as they are: {}", error.what());
    options.growth = Growth::off;
  }
}

}  // namespace

/// A growth that fails is not tried again, nor is a table made smaller once that has failed.
int run_agent(AgentOptions options) {
  start_log(options.log_level, options.log_format);
  EndSignals ends;
  const maps::Pins pins(options.pins);
  const auto lock = PinLock::take(pins);
  auto fitting = options.sizes;
  Start start{.readiness = Readiness::never, .least_slots = options.sizes.slots};
  auto change = SizeChange::larger;
  for (;;) {
    try {
      const auto larger = serve(options, start, ends);
      if (!larger) {
        return 0;
      }
      fitting = std::exchange(options.sizes, larger->sizes);
      start.readiness = larger->readiness;
      change = larger->change;
      spdlog::info("{}; making them anew: {}", reason(change), sizes_text(options.sizes));
    } catch (const StartError& error) {
      if (options.sizes == fitting) {
        throw;
      }
      give_up(options, change, error);
      options.sizes = fitting;
    }
  }
}

}  // namespace lb::agent
