// How early the kernel kills this process when memory runs out (proc_pid_oom_score_adj(5)).
#pragma once

#include <cstdint>
#include <optional>

namespace lb::agent {

/// Nothing: leaves it. A lower value than the process has needs CAP_SYS_RESOURCE; without it a warning is
/// logged, and the value stays.
void adjust_oom_score(std::optional<std::int32_t> adjustment);

}  // namespace lb::agent
