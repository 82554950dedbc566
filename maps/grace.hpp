// SPDX-License-Identifier: Apache-2.0
// Grace periods: after one, no program still uses values that it had read before. The kernel's wait takes 8
// to 9 ms, so a helper thread does it, which touches nothing else.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "maps/map.hpp"

namespace lb::maps {

/// Runs a callback later on the agent's own thread, in order; for instance asio::post bound to its
/// io_context.
using Post = std::function<void(std::function<void()>)>;

class GracePeriod {
 public:
  virtual ~GracePeriod() = default;
  /// Calls `done` on the agent's thread after every program that ran during this call has ended. Never from
  /// within this call.
  virtual void after(std::function<void()> done) = 0;
};

/// Waits by an update of a one-slot ARRAY_OF_MAPS, after which the kernel calls synchronize_rcu().
class KernelGrace final : public GracePeriod {
 public:
  /// Creates the map (not pinned) and starts the helper. EPERM without CAP_BPF.
  [[nodiscard]] static result<std::unique_ptr<KernelGrace>> open(Post post);
  KernelGrace(const KernelGrace&) = delete;
  KernelGrace& operator=(const KernelGrace&) = delete;
  /// Waits for the helper; callbacks that were not posted yet are dropped.
  ~KernelGrace() override;

  /// Requests made while one wait is under way share the next wait.
  void after(std::function<void()> done) override;

 private:
  KernelGrace(Fd inner, Fd outer, Post post);
  void help(const std::stop_token& stop);
  /// False if stopped, or if the kernel refused (no memory): then no grace period has passed.
  bool wait_once(const std::stop_token& stop) const;

  Fd inner_;
  Fd outer_;
  Post post_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<std::function<void()>> waiting_;
  std::jthread helper_;
};

}  // namespace lb::maps
