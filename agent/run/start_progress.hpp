// Logs what a start waits for when it takes long, because nothing else shows it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "k8s/watch/api_source.hpp"

namespace lb::agent {

/// How far a start has come.
enum class StartStep : std::uint8_t {
  network,  ///< the kernel has not reported this node's devices and addresses
  objects,  ///< the source has not reported all objects
  plan,     ///< a first plan is made and written
  labels,   ///< a Service waits for the labels of other Nodes
  turns,    ///< a plan waits for its next turn
  tables,   ///< something of the first plan is not in the maps
  serving,
};

/// In words, after "waiting for ". `api`: of each watched resource; none without the API.
[[nodiscard]] std::string awaited(StartStep step, const std::vector<k8s::ApiStats>& api);

/// "not ready after 12 s: waiting for …", and whether the agent could not look for so long that its own work
/// or the machine is slow: `held` is by how much it looks later than it should.
[[nodiscard]] std::string start_sentence(std::chrono::milliseconds waited, std::chrono::milliseconds held,
                                         const std::string& what);

class StartProgress {
 public:
  using Clock = std::chrono::steady_clock;
  using Ask = std::function<std::string()>;

  /// Says every so often what `ask` answers, until that is nothing. The time is since this was made.
  StartProgress(boost::asio::io_context& context, Ask ask);
  void watch();

 private:
  boost::asio::steady_timer timer_;
  Ask ask_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace lb::agent
