// Grace periods: after one, no program still uses what it had read before. The kernel's wait takes 8 to 9 ms,
// so a helper thread does it, which touches nothing else.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "maps/map.hpp"

namespace lb::maps {

/// Runs something later on the agent's own thread, in order; asio::post bound to its io_context, for
/// instance.
using Post = std::function<void(std::function<void()>)>;

class GracePeriod {
 public:
  virtual ~GracePeriod() = default;
  /// Calls `done` on the agent's thread when every program that ran during this call has ended. Never from
  /// within this call.
  virtual void after(std::function<void()> done) = 0;
};

/// By an update of a one-slot ARRAY_OF_MAPS, after which the kernel waits for synchronize_rcu().
class KernelGrace final : public GracePeriod {
 public:
  /// Makes the map (not pinned) and starts the helper. EPERM without CAP_BPF.
  [[nodiscard]] static result<std::unique_ptr<KernelGrace>> open(Post post);
  KernelGrace(const KernelGrace&) = delete;
  KernelGrace& operator=(const KernelGrace&) = delete;
  /// Waits for the helper; what was not yet posted is dropped.
  ~KernelGrace() override;

  /// Requests that come while one wait is under way share the next.
  void after(std::function<void()> done) override;

 private:
  KernelGrace(Fd inner, Fd outer, Post post);
  void help(const std::stop_token& stop);
  /// False: stopped, or the kernel refused (no memory), and no grace period has passed.
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
