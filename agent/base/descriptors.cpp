// SPDX-License-Identifier: Apache-2.0
// The limit, by setrlimit(2).
#include "agent/base/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace lb::agent {
namespace {

constexpr std::size_t usual_limit = 1024;
constexpr std::size_t most_reserved = 512;
/// Each needs kernel memory too, so there are not more of them however high the limit is.
constexpr std::size_t most_listeners = 4096;
constexpr std::size_t most_clients = 1024;

}  // namespace

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return usual_limit;
  }
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    limit.rlim_cur = ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
  }
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::size_t>::max() : limit.rlim_cur;
}

DescriptorShares descriptor_shares(std::size_t limit) noexcept {
  const auto rest = limit - std::min(limit / 2, most_reserved);
  return {.listeners = std::min(rest / 2, most_listeners), .clients = std::min(rest / 2, most_clients)};
}

}  // namespace lb::agent
