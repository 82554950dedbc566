// Resolves host names by the system's library, which may block for long: in a helper thread, never in ours.
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

struct Looked {
  std::vector<Address> addresses;  ///< in the order in which they are to be tried
  std::string problem;             ///< why there are none
};

/// Blocks; called in another thread.
using Lookup = std::function<Looked(const std::string& host)>;

/// getaddrinfo(3).
[[nodiscard]] Looked look_up_by_system(const std::string& host);

/// At most one thread a host: a request made while one is under way gets its answer.
class Resolver {
 public:
  using Done = std::function<void(const Looked&)>;

  /// A look-up that is still under way when this goes ends by itself, and calls no callback.
  Resolver(boost::asio::io_context& context, Lookup lookup);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// `done` runs in the context, after this has returned.
  void resolve(const std::string& host, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lb::k8s
