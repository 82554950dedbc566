// SPDX-License-Identifier: Apache-2.0
// The built-in programs as one object: opens and loads it; only bpf_programs.cpp includes the generated
// skeleton.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/programs/acceptance.hpp"
#include "agent/programs/features.hpp"
#include "maps/abi/frame_address.h"
#include "maps/abi/xdp_tx.h"

struct bpf_object;

namespace lb::agent {

class BpfPrograms {
 public:
  /// Opens the object, with maps of these sizes; creates nothing in the kernel yet. Throws StartError.
  [[nodiscard]] static BpfPrograms open(const Sizes& sizes);

  BpfPrograms(BpfPrograms&&) noexcept;
  BpfPrograms& operator=(BpfPrograms&&) noexcept;
  ~BpfPrograms();

  /// Before load: chooses programs and sets their read-only data.
  void configure(const AgentOptions& options, const Acceptance& accepted, std::uint32_t hertz);
  /// Throws StartError with the program that the kernel refuses, and the reason.
  void load();
  /// Likewise, but returns false if the kernel refuses a program: then this object is of no further use.
  [[nodiscard]] bool try_load();

  [[nodiscard]] bpf_object* object() const noexcept;
  /// After load: lb_watch's counters, one for each device to which XDP redirects.
  [[nodiscard]] std::span<lb_xdp_tx> xdp_tx_counters() const noexcept;
  /// After load: the devices' link-layer addresses for XDP.
  [[nodiscard]] std::span<lb_frame_address> frame_addresses() const noexcept;
  /// Descriptor of a map; negative before load.
  [[nodiscard]] int map(const char* name) const;
  /// Descriptor of a program; -1: it is not loaded.
  [[nodiscard]] int program(const char* name) const;

 private:
  struct Skeleton;
  explicit BpfPrograms(std::unique_ptr<Skeleton> skeleton);

  std::unique_ptr<Skeleton> skeleton_;
};

/// Tries each program that an agent with these options would load, and drops it: uses its own unpinned maps
/// of minimum size. One that is refused is tried again as docs/kernels.md says. Throws StartError if memory
/// is lacking, or if nothing that is accepted could serve.
[[nodiscard]] Acceptance try_programs(const AgentOptions& options, const Features& features);

}  // namespace lb::agent
