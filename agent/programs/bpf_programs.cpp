// SPDX-License-Identifier: Apache-2.0
// The only file that includes the generated skeleton.
#include "agent/programs/bpf_programs.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/base/error.hpp"
#include "agent/programs/libbpf_log.hpp"
#include "agent/programs/pinned_maps.hpp"
#include "agent/programs/program_config.hpp"

// The skeleton's struct would collide with our namespace of the same name. It is generated as C that C++
// accepts, but not without our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Woverlength-strings"
namespace lb::agent::skeleton {
#include "bpf/lb.skel.h"
}
#pragma GCC diagnostic pop

namespace lb::agent {
namespace {

using Opened = std::unique_ptr<skeleton::lb, decltype(&skeleton::lb__destroy)>;

/// Why the last load failed, in the verifier's words if it has some.
std::string refusal(int error) {
  const auto& refused = refused_program();
  return refused.reason.empty() ? libbpf_reason(error) : refused.reason;
}

/// Whether the kernel has the programs' types. libbpf goes on without them, but the verifier then refuses any
/// program with global functions; every kernel takes the types unless it lacks memory.
bool has_types(const bpf_object* object) { return btf__fd(bpf_object__btf(object)) >= 0; }

constexpr const char* refusal_advice =
    "'sluice check' with the same options tries each program; Linux 6.1 or later is needed";

StartError load_error(const bpf_object* object, int error) {
  const auto& refused = refused_program();
  if (!refused.name.empty() && !has_types(object)) {
    return {"the kernel did not take the programs' types (BTF), perhaps for lack of memory", "start again"};
  }
  const auto what = refused.name.empty() ? std::string("programs") : "program " + refused.name;
  const auto* advice = error == EPERM    ? "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
                       : error == ENOMEM ? "give the agent more memory, or make the maps smaller"
                                         : refusal_advice;
  return {fmt::format("the kernel refused the {} ({})", what, refusal(error)), advice};
}

/// Minimum table sizes: no program reads its tables' sizes from the options.
constexpr Sizes smallest{.frontends = 64,
                         .ranges = 64,
                         .services = 64,
                         .backends = 64,
                         .slots = 64,
                         .flows = 1024,
                         .unassured = 1024,
                         .consistent_slots = 251};

/// The verifier does not depend on the tick rate.
constexpr std::uint32_t any_hertz = 250;

BpfPrograms configured(const AgentOptions& options, const Acceptance& accepted) {
  auto programs = BpfPrograms::open(smallest);
  programs.configure(options, accepted, any_hertz);
  return programs;
}

std::uint32_t instructions_of(int program) {
  bpf_prog_info info{};
  __u32 size = sizeof(info);
  return bpf_prog_get_info_by_fd(program, &info, &size) == 0 ? info.verified_insns : 0;
}

std::vector<std::string> chosen_programs(const BpfPrograms& programs) {
  std::vector<std::string> names;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, programs.object()) {
    if (bpf_program__autoload(program)) {
      names.emplace_back(bpf_program__name(program));
    }
  }
  return names;
}

void choose_only(const BpfPrograms& programs, const std::string& name) {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, programs.object()) {
    bpf_program__set_autoload(program, bpf_program__name(program) == name);
  }
}

/// Whether the kernel judged a program and refused it, instead of lacking memory, descriptors or rights.
bool is_refusal(const bpf_object* object, int error) {
  if (!has_types(object)) {
    return false;
  }
  constexpr std::array verdicts = {EINVAL, EACCES, E2BIG, EOPNOTSUPP, 524 /* the kernel's ENOTSUPP */};
  const auto& refused = refused_program();
  const bool judged = error == EPERM && !refused.reason.empty();
  return !refused.name.empty() && (judged || std::ranges::find(verdicts, error) != verdicts.end());
}

ProgramProbe probe_program(const AgentOptions& options, const Features& features, const std::string& name) {
  auto programs = configured(options, {.features = features});
  choose_only(programs, name);
  forget_libbpf_warnings();
  const int error = -bpf_object__load(programs.object());
  if (error == 0) {
    return {name, instructions_of(programs.program(name.c_str())), {}};
  }
  if (!is_refusal(programs.object(), error)) {
    throw load_error(programs.object(), error);
  }
  return {name, 0, refusal(error)};
}

}  // namespace

struct BpfPrograms::Skeleton {
  Opened opened;
};

BpfPrograms::BpfPrograms(std::unique_ptr<Skeleton> skeleton) : skeleton_(std::move(skeleton)) {}
BpfPrograms::BpfPrograms(BpfPrograms&&) noexcept = default;
BpfPrograms& BpfPrograms::operator=(BpfPrograms&&) noexcept = default;
BpfPrograms::~BpfPrograms() = default;

BpfPrograms BpfPrograms::open(const Sizes& sizes) {
  log_libbpf();
  Opened opened(skeleton::lb__open(), &skeleton::lb__destroy);
  if (!opened) {
    throw StartError(fmt::format("cannot read the built-in programs ({})", std::strerror(errno)));
  }
  set_sizes(opened->obj, sizes);
  return BpfPrograms(std::make_unique<Skeleton>(Skeleton{std::move(opened)}));
}

void BpfPrograms::configure(const AgentOptions& options, const Acceptance& accepted, std::uint32_t hertz) {
  agent::configure(skeleton_->opened->rodata->lb_config, options, accepted.features, hertz);
  size_scratch(object(), skeleton_->opened->rodata->lb_config);
  choose_parts(skeleton_->opened->rodata->lb_choices, accepted.features);
  choose_programs(object(), options, accepted.features);
  for (const auto& name : accepted.left_out) {
    bpf_program__set_autoload(bpf_object__find_program_by_name(object(), name.c_str()), false);
  }
}

void BpfPrograms::load() {
  if (!try_load()) {
    throw load_error(object(), EINVAL);
  }
}

bool BpfPrograms::try_load() {
  forget_libbpf_warnings();
  if (const int error = -skeleton::lb__load(skeleton_->opened.get()); error != 0) {
    if (is_refusal(object(), error)) {
      return false;
    }
    throw load_error(object(), error);
  }
  // libbpf does not map memory if its probe for that feature failed with an error.
  if (skeleton_->opened->bss == nullptr) {
    throw StartError(
        "cannot map the programs' global data (libbpf's probe failed, perhaps for lack of memory): start "
        "again");
  }
  return true;
}

bpf_object* BpfPrograms::object() const noexcept { return skeleton_->opened->obj; }

std::span<lb_xdp_tx> BpfPrograms::xdp_tx_counters() const noexcept {
  return skeleton_->opened->bss->lb_xdp_tx;
}

std::span<lb_frame_address> BpfPrograms::frame_addresses() const noexcept {
  return skeleton_->opened->bss->lb_frame_addresses;
}

int BpfPrograms::map(const char* name) const { return bpf_object__find_map_fd_by_name(object(), name); }

int BpfPrograms::program(const char* name) const {
  const auto* program = bpf_object__find_program_by_name(object(), name);
  return program != nullptr && bpf_program__autoload(program) ? bpf_program__fd(program) : -1;
}

// Loads all at once, as an agent does. The kernel stops at the first program that it refuses; only then each
// is tried separately, which takes longer.
Acceptance try_programs(const AgentOptions& options, const Features& features) {
  Acceptance accepted{.features = features};
  auto all = configured(options, accepted);
  const auto names = chosen_programs(all);
  if (all.try_load()) {
    for (const auto& name : names) {
      accepted.loads[name] = {name, instructions_of(all.program(name.c_str())), {}};
    }
    return accepted;
  }
  accepted = accept_programs(
      features,
      {.chosen =
           [&](const Features& fewer) { return chosen_programs(configured(options, {.features = fewer})); },
       .load = [&](const std::string& name,
                   const Features& fewer) { return probe_program(options, fewer, name); }});
  if (const auto nothing = nothing_served(names, accepted); !nothing.empty()) {
    throw StartError(nothing, refusal_advice);
  }
  return accepted;
}

}  // namespace lb::agent
