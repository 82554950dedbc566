// SPDX-License-Identifier: Apache-2.0
// Derives from options and features which programs are loaded, and their read-only data.
#pragma once

#include <cstdint>

#include "agent/options/config.hpp"
#include "agent/programs/features.hpp"
#include "maps/abi/abi.h"
#include "maps/abi/choices.h"

struct bpf_object;

namespace lb::agent {

/// Whether the options enable XDP; whether they enable tc programs.
[[nodiscard]] bool wants_xdp(const AgentOptions& options);
[[nodiscard]] bool serves_devices(const AgentOptions& options);

/// Disables programs that no option needs or that this kernel does not support.
void choose_programs(bpf_object* object, const AgentOptions& options, const Features& features);

/// `hertz`: the kernel's timer ticks per second.
void configure(lb_config& config, const AgentOptions& options, const Features& features, std::uint32_t hertz);
void choose_parts(lb_choices& choices, const Features& features);

/// Before load: gives lb_scratch the slots that this configuration needs.
void size_scratch(bpf_object* object, const lb_config& config);

}  // namespace lb::agent
