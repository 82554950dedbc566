// SPDX-License-Identifier: Apache-2.0
#include "agent/programs/map_iterator.hpp"

#include <bpf/bpf.h>

#include <cstdint>

namespace lb::agent {

maps::Fd link_iterator(int program, int map) {
  bpf_iter_link_info target{};
  target.map.map_fd = static_cast<std::uint32_t>(map);
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.iter_info = &target;
  options.iter_info_len = sizeof(target);
  return maps::Fd(bpf_link_create(program, 0, BPF_TRACE_ITER, &options));
}

}  // namespace lb::agent
