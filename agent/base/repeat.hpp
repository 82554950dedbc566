// SPDX-License-Identifier: Apache-2.0
// Repeats an action, with a pause before each call.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace lb::agent {

/// Repeats until the timer is cancelled or destroyed. Objects that `action` uses must live as long as the
/// timer.
template <class Action>
void repeat(boost::asio::steady_timer& timer, boost::asio::steady_timer::duration pause, Action action) {
  timer.expires_after(pause);
  timer.async_wait([&timer, pause, action = std::move(action)](const auto& stopped) mutable {
    if (stopped) {
      return;
    }
    action();
    repeat(timer, pause, std::move(action));
  });
}

}  // namespace lb::agent
