// SPDX-License-Identifier: Apache-2.0
// Resolves host names by getaddrinfo(3), which may block for long: in a helper thread, not in the agent's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "k8s/objects/model.hpp"

namespace boost::asio {
class io_context;
}

namespace lb::k8s {

struct LookupResult {
  std::vector<Address> addresses;  ///< in the order in which to try them
  std::string problem;             ///< error message if there are none
};

/// Blocks; called in a helper thread.
using Lookup = std::function<LookupResult(const std::string& host)>;

/// Resolves by getaddrinfo(3).
[[nodiscard]] LookupResult look_up_by_system(const std::string& host);

/// Runs at most one thread for each host: a concurrent request for the same host shares its result.
class Resolver {
 public:
  using Done = std::function<void(const LookupResult&)>;

  /// Destroying the resolver abandons a resolution under way, whose callback is not called.
  Resolver(boost::asio::io_context& context, Lookup lookup);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Calls `done` in the context, after this call has returned.
  void resolve(const std::string& host, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lb::k8s
