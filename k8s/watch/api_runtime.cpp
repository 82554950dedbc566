// SPDX-License-Identifier: Apache-2.0
// Timers whose callback is cancelled when they are set again or destroyed.
#include "k8s/watch/api_runtime.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace lb::k8s {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

class TimerAlarm final : public Alarm {
 public:
  explicit TimerAlarm(asio::io_context& context) : timer_(context) {}

  void set(Time when, std::function<void()> ring) override {
    const auto number = ++*number_;
    timer_.expires_at(Clock::time_point(when));
    timer_.async_wait([number, current = std::weak_ptr(number_), ring = std::move(ring)](const auto& error) {
      const auto now = current.lock();  // null after the alarm was destroyed
      if (!error && now && *now == number) {
        ring();
      }
    });
  }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<std::uint64_t> number_ = std::make_shared<std::uint64_t>(0);
};

/// The current time rounded up, so that an alarm has fired when the clock shows its time.
Time steady_now() { return std::chrono::ceil<Time>(Clock::now().time_since_epoch()); }

}  // namespace

ApiRuntime asio_runtime(asio::io_context& context, ApiClient& client, std::uint32_t seed) {
  return {[&client] { return client.connection(); },
          [&context] { return std::make_unique<TimerAlarm>(context); }, steady_now, seed};
}

}  // namespace lb::k8s
