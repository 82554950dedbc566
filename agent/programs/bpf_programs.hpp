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
  /// Opens the object, with maps of these sizes; creates nothing in the kernel yet. Throws StartError.
  [[nodiscard]] static BpfPrograms open(const Sizes& sizes);

  BpfPrograms(BpfPrograms&&) noexcept;
  BpfPrograms& operator=(BpfPrograms&&) noexcept;
  ~BpfPrograms();

  /// Before load: chooses programs and sets their read-only data.
  void configure(const AgentOptions& options, const Features& features, std::uint32_t hertz);
  /// Throws StartError with the program that the kernel refuses, and the reason.
  void load();

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

/// The result of loading one program.
struct ProgramProbe {
  std::string name;
  std::uint32_t instructions = 0;  ///< instructions processed by the verifier; 0: unknown
  std::string refusal;             ///< why the kernel refused it; empty: it was loaded
};

/// Loads each program that an agent with these options would load, and drops it: uses its own unpinned maps
/// of minimum size.
[[nodiscard]] std::vector<ProgramProbe> probe_programs(const AgentOptions& options, const Features& features);

}  // namespace lb::agent
