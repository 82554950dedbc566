// What an agent that does not serve yet waits for: said in the log after a while, since nobody else can tell.
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
  network,  ///< the kernel has not told of this node's devices and addresses
  objects,  ///< the source has not told of all objects
  plan,     ///< a first plan is made and written
  tables,   ///< something of the first plan is not in the maps
  serving,
};

/// In words, after "waiting for ". `api`: of each watched resource; none without the API.
[[nodiscard]] std::string awaited(StartStep step, const std::vector<k8s::ApiFigures>& api);

class StartProgress {
 public:
  using Ask = std::function<std::string()>;

  /// Says every so often what `ask` answers, until that is nothing.
  StartProgress(boost::asio::io_context& context, Ask ask);
  void watch();

 private:
  boost::asio::steady_timer timer_;
  Ask ask_;
  std::chrono::seconds waited_{0};
};

}  // namespace lb::agent
