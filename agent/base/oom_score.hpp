// SPDX-License-Identifier: Apache-2.0
// The OOM score adjustment of this process (proc_pid_oom_score_adj(5)).
#pragma once

#include <cstdint>
#include <optional>

namespace lb::agent {

/// Sets the adjustment; nullopt: unchanged. Lowering it needs CAP_SYS_RESOURCE; without that a warning is
/// logged, and the value stays.
void adjust_oom_score(std::optional<std::int32_t> adjustment);

}  // namespace lb::agent
