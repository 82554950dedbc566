// The built-in programs as one object: opens and loads it; only bpf_programs.cpp includes the generated
// skeleton.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/programs/features.hpp"
#include "maps/abi/frame_address.h"
#include "maps/abi/xdp_tx.h"

struct bpf_object;

namespace lb::agent {

class BpfPrograms {
 public:
  /// Read, with maps of these sizes; nothing is in the kernel yet. Throws StartError.
  [[nodiscard]] static BpfPrograms open(const Sizes& sizes);

  BpfPrograms(BpfPrograms&&) noexcept;
  BpfPrograms& operator=(BpfPrograms&&) noexcept;
  ~BpfPrograms();

  /// Before load: the choice of programs and their read-only data.
  void configure(const AgentOptions& options, const Features& features, std::uint32_t hertz);
  /// Throws StartError, which names the program that the kernel refuses and why.
  void load();

  [[nodiscard]] bpf_object* object() const noexcept;
  /// After load: what lb_watch counts into.
  [[nodiscard]] std::span<lb_xdp_tx> sending() const noexcept;
  /// After load: the devices' link addresses, as XDP compares them.
  [[nodiscard]] std::span<lb_frame_address> frame_addresses() const noexcept;
  /// Descriptor of a map; below zero before load.
  [[nodiscard]] int map(const char* name) const;
  /// Descriptor of a program; -1: it is not loaded.
  [[nodiscard]] int program(const char* name) const;

 private:
  struct Skeleton;
  explicit BpfPrograms(std::unique_ptr<Skeleton> skeleton);

  std::unique_ptr<Skeleton> skeleton_;
};

/// What came of loading one program.
struct ProgramTrial {
  std::string name;
  std::uint32_t instructions = 0;  ///< that the verifier went through; 0: not known
  std::string refusal;             ///< why it was not loaded; empty: it was
};

/// Loads each program that an agent with these options would, and drops it: with maps of their own, the
/// smallest, that nothing pins.
[[nodiscard]] std::vector<ProgramTrial> try_programs(const AgentOptions& options, const Features& features);

}  // namespace lb::agent
