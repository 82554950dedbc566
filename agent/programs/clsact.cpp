// SPDX-License-Identifier: Apache-2.0
// clsact filters with a handle and priorities of our own.
#include "agent/programs/clsact.hpp"

#include <bpf/libbpf.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/system_error.hpp"
#include "agent/programs/program.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

constexpr std::uint32_t first_priority = 1;      // first at ingress
constexpr std::uint32_t last_priority = 0xfff0;  // last at egress

/// Converts a negative errno of libbpf.
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

/// Filters at our priority: our own ones, and the handles that are taken.
struct Place {
  std::vector<TcFilter> ours;  ///< at handles of this Sluice first
  std::set<std::uint32_t> taken;
};

Place place_of(const FilterOwner& owner, int device, TcSide side) {
  Place place;
  for (auto& filter : filters_of(device, side)) {
    if (filter.priority == priority_of(side)) {
      place.taken.insert(filter.handle);
      if (owner.owns(filter)) {
        place.ours.push_back(std::move(filter));
      }
    }
  }
  std::ranges::partition(place.ours,
                         [&](const auto& filter) { return owner.handles().contains(filter.handle); });
  return place;
}

/// Returns 0 if no handle is free.
std::uint32_t free_handle(const FilterHandles& handles, const std::set<std::uint32_t>& taken) {
  for (auto handle = handles.first; handle <= handles.last; ++handle) {
    if (!taken.contains(handle)) {
      return handle;
    }
  }
  return 0;
}

void remove_filter(int device, TcSide side, std::uint32_t handle) {
  const auto hook = hook_of(device, side);
  const auto options = options_of(side, handle);
  bpf_tc_detach(&hook, &options);
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

/// Uses the network namespace of the calling thread, which must not be shared.
ClsactProbe attach_anywhere(int program) {
  constexpr int loopback = 1;
  if (const auto qdisc = ensure_qdisc(loopback); !qdisc) {
    return {qdisc.error(), ClsactPart::qdisc};
  }
  const auto held =
      put_filter(loopback, TcSide::ingress, all_filter_handles.first, program, HookState::attached);
  return {held ? error_code() : held.error(), ClsactPart::filter};
}

}  // namespace

// The namespace ends with the thread, and its filters with the namespace.
ClsactProbe probe_clsact(int program) {
  ClsactProbe probe;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      probe.error = error_of(-errno);
      return;
    }
    probe = attach_anywhere(program);
  }).join();
  return probe;
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

// A filter at an older handle is removed only once its successor runs: our programs do not process packets
// that the other has translated.
boost::system::result<AttachResult> ensure_clsact(const FilterOwner& owner, int device, TcSide side,
                                                  int program) {
  const auto place = place_of(owner, device, side);
  const bool found = !place.ours.empty() && owner.handles().contains(place.ours.front().handle);
  const auto handle = found ? place.ours.front().handle : free_handle(owner.handles(), place.taken);
  if (handle == 0) {
    return error_of(-EEXIST);
  }
  const bool same = found && same_program(place.ours.front().program, program);
  const auto done = place.ours.empty() ? HookState::attached : HookState::updated;
  const auto put = same ? AttachResult{HookState::kept, place.ours.front().program}
                        : put_filter(device, side, handle, program, done);
  for (const auto& filter : place.ours) {
    if (put && filter.handle != handle) {
      remove_filter(device, side, filter.handle);
    }
  }
  return put;
}

void remove_clsact(const FilterOwner& owner, int device, TcSide side) {
  for (const auto& filter : place_of(owner, device, side).ours) {
    remove_filter(device, side, filter.handle);
  }
}

bool runs_clsact(int device, TcSide side, std::uint32_t program) {
  const auto filters = filters_of(device, side);
  return std::ranges::find(filters, program, &TcFilter::program) != filters.end();
}

bool has_clsact(const FilterOwner& owner, int device, TcSide side) {
  return !place_of(owner, device, side).ours.empty();
}

}  // namespace lb::agent
