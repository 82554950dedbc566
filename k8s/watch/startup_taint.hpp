// SPDX-License-Identifier: Apache-2.0
// Removes the taint that keeps pods off the own Node until services work there. No socket and no clock:
// connection, timer and time are injected.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "k8s/client/transport.hpp"
#include "k8s/watch/api_source.hpp"

namespace lb::k8s {

/// Reads the Node and patches it, and retries until the API has accepted the patch: a node that keeps its
/// taint gets no pods.
class StartupTaint {
 public:
  using Say = std::function<void(std::string message)>;
  struct Report {
    Say done;
    Say failure;  ///< called for the first of several failures in a row
  };

  static constexpr Time deadline{10'000};  ///< for a response
  static constexpr Time min_pause{1'000};  ///< before a retry; it doubles
  static constexpr Time max_pause{60'000};
  static constexpr std::size_t max_bytes = std::size_t{8} << 20U;  ///< of a Node

  StartupTaint(const ApiRuntime& runtime, std::string node, std::string key, Report report);
  ~StartupTaint();
  StartupTaint(const StartupTaint&) = delete;
  StartupTaint& operator=(const StartupTaint&) = delete;

  /// Call once.
  void remove();

 private:
  class Reader;

  void read();
  void patch(const std::string& node);
  void ask(ApiRequest request);
  void answered(unsigned status, const std::string& body, const std::string& server);
  void failed(const std::string& problem);

  std::function<Time()> now_;
  std::string node_;
  std::string key_;
  Report report_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<Alarm> alarm_;
  std::unique_ptr<ApiConnection> connection_;
  Time pause_ = min_pause;
  bool patching_ = false;
  bool failing_ = false;
};

/// A JSON patch (RFC 6902) that removes all taints with this key, and fails if their positions have changed;
/// empty if there are none. nullopt if `node` is not a Node.
[[nodiscard]] std::optional<std::string> patch_without_taint(std::string_view node, std::string_view key);

}  // namespace lb::k8s
