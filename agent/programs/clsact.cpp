// clsact filters with a handle and priorities of our own.
#include "agent/programs/clsact.hpp"

#include <bpf/libbpf.h>
#include <sched.h>

#include <cerrno>
#include <set>
#include <thread>

#include "agent/base/system_error.hpp"
#include "agent/programs/program.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

constexpr std::uint32_t first_priority = 1;      // before everybody at ingress
constexpr std::uint32_t last_priority = 0xfff0;  // after everybody at egress

/// As libbpf returns it.
error_code error_of(int negative) { return system_error(-negative); }

bpf_tc_hook hook_of(int device, TcSide side) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = device;
  hook.attach_point = side == TcSide::ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS;
  return hook;
}

std::uint32_t priority_of(TcSide side) { return side == TcSide::ingress ? first_priority : last_priority; }

bpf_tc_opts options_of(TcSide side, std::uint32_t handle) {
  bpf_tc_opts options{};
  options.sz = sizeof(options);
  options.handle = handle;
  options.priority = priority_of(side);
  return options;
}

/// By its program's name; the kernel shows a program to CAP_SYS_ADMIN alone, and libbpf names the filter
/// after it.
bool is_ours(const TcFilter& filter) {
  const auto info = program_info_of(filter.program);
  const auto& name = info ? info->name : filter.name;
  return name.starts_with("lb_tc_") || name.starts_with("lb_pod_");
}

struct Filter {
  std::uint32_t handle = 0;   ///< 0: no handle is left
  std::uint32_t program = 0;  ///< 0: none yet
};

/// Our filter, or the first free handle for it.
Filter our_filter(int device, TcSide side) {
  std::set<std::uint32_t> taken;
  for (const auto& filter : filters_of(device, side)) {
    if (filter.priority != priority_of(side)) {
      continue;
    }
    if (filter.program != 0 && is_ours(filter)) {
      return {filter.handle, filter.program};
    }
    taken.insert(filter.handle);
  }
  for (auto handle = first_handle; handle <= last_handle; ++handle) {
    if (!taken.contains(handle)) {
      return {handle, 0};
    }
  }
  return {};
}

boost::system::result<AttachResult> put_filter(int device, TcSide side, std::uint32_t handle, int program,
                                               HookState done) {
  const auto hook = hook_of(device, side);
  auto options = options_of(side, handle);
  options.prog_fd = program;
  options.flags = done == HookState::updated ? BPF_TC_F_REPLACE : 0;
  if (const int error = bpf_tc_attach(&hook, &options); error != 0) {
    return error_of(error);
  }
  const auto loaded = program_info(program);
  return AttachResult{done, loaded ? loaded->id : 0};
}

/// In the network namespace of the calling thread, which must be its own alone.
ClsactTrial attach_anywhere(int program) {
  constexpr int loopback = 1;
  if (const auto qdisc = ensure_qdisc(loopback); !qdisc) {
    return {qdisc.error(), ClsactPart::qdisc};
  }
  const auto held = put_filter(loopback, TcSide::ingress, first_handle, program, HookState::attached);
  return {held ? error_code() : held.error(), ClsactPart::filter};
}

}  // namespace

// The namespace goes with the thread, and what hangs in it with the namespace.
ClsactTrial try_clsact(int program) {
  ClsactTrial trial;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      trial.error = error_of(-errno);
      return;
    }
    trial = attach_anywhere(program);
  }).join();
  return trial;
}

boost::system::result<Qdisc> ensure_qdisc(int device) {
  auto hook = hook_of(device, TcSide::ingress);
  const int error = bpf_tc_hook_create(&hook);
  if (error != 0 && error != -EEXIST) {
    return error_of(error);
  }
  return error == 0 ? Qdisc::made : Qdisc::found;
}

void remove_empty_qdisc(int device) {
  if (!filters_of(device, TcSide::ingress).empty() || !filters_of(device, TcSide::egress).empty()) {
    return;
  }
  auto hook = hook_of(device, TcSide::ingress);
  hook.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
  bpf_tc_hook_destroy(&hook);
}

boost::system::result<AttachResult> ensure_clsact(int device, TcSide side, int program) {
  const auto filter = our_filter(device, side);
  if (filter.handle == 0) {
    return error_of(-EEXIST);
  }
  if (filter.program == 0) {
    return put_filter(device, side, filter.handle, program, HookState::attached);
  }
  if (same_program(filter.program, program)) {
    return AttachResult{HookState::kept, filter.program};
  }
  return put_filter(device, side, filter.handle, program, HookState::updated);
}

void remove_clsact(int device, TcSide side) {
  const auto filter = our_filter(device, side);
  if (filter.program == 0) {
    return;
  }
  const auto hook = hook_of(device, side);
  const auto options = options_of(side, filter.handle);
  bpf_tc_detach(&hook, &options);
}

bool runs_clsact(int device, TcSide side, std::uint32_t program) {
  return our_filter(device, side).program == program;
}

std::uint32_t clsact_program(int device, TcSide side) { return our_filter(device, side).program; }

bool has_clsact(int device, TcSide side) { return clsact_program(device, side) != 0; }

}  // namespace lb::agent
