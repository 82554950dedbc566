// From options and kernel features to the programs: which are loaded, and with which read-only data.
#pragma once

#include <cstdint>

#include "agent/options/config.hpp"
#include "agent/programs/features.hpp"
#include "maps/abi/abi.h"

struct bpf_object;

namespace lb::agent {

/// Do the options ask for XDP, and for tc programs?
[[nodiscard]] bool wants_xdp(const AgentOptions& options);
[[nodiscard]] bool serves_devices(const AgentOptions& options);

/// Leaves out the programs that nothing asks for or that this kernel cannot have.
void choose_programs(bpf_object* object, const AgentOptions& options, const Features& features);

/// `hertz`: the kernel's timer ticks a second.
void configure(lb_config& config, const AgentOptions& options, const Features& features, std::uint32_t hertz);

}  // namespace lb::agent
