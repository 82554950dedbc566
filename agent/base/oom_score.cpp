// SPDX-License-Identifier: Apache-2.0
#include "agent/base/oom_score.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace lb::agent {

void adjust_oom_score(std::optional<std::int32_t> adjustment) {
  if (!adjustment) {
    return;
  }
  constexpr const char* path = "/proc/self/oom_score_adj";
  std::int32_t now = 0;
  if (std::ifstream(path) >> now && now == *adjustment) {
    return;
  }
  std::ofstream file(path);
  errno = 0;
  if (!(file << *adjustment).flush()) {
    spdlog::warn(
        "cannot set {} to {} ({}): the kernel may end the agent sooner when memory runs out; the pinned "
        "programs keep serving",
        path, *adjustment, std::generic_category().message(errno == 0 ? EACCES : errno));
  }
}

}  // namespace lb::agent
