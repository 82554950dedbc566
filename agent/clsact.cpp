// clsact filters with a handle and priorities of our own.
#include "agent/clsact.hpp"

#include <bpf/libbpf.h>

#include <cerrno>

#include "agent/program.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

constexpr std::uint32_t our_handle = 0x6c62;     // "lb"
constexpr std::uint32_t first_priority = 1;      // before everybody at ingress
constexpr std::uint32_t last_priority = 0xfff0;  // after everybody at egress

error_code error_of(int negative) { return {-negative, boost::system::generic_category()}; }

bpf_tc_hook hook_of(int device, TcSide side) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = device;
  hook.attach_point = side == TcSide::ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS;
  return hook;
}

bpf_tc_opts place_of(TcSide side) {
  bpf_tc_opts place{};
  place.sz = sizeof(place);
  place.handle = our_handle;
  place.priority = side == TcSide::ingress ? first_priority : last_priority;
  return place;
}

/// The program of the filter in our place; 0: none.
std::uint32_t program_at(int device, TcSide side) {
  const auto hook = hook_of(device, side);
  auto place = place_of(side);
  return bpf_tc_query(&hook, &place) == 0 ? place.prog_id : 0;
}

bool is_ours(std::uint32_t program) {
  const auto info = program_info_of(program);
  return info && (info->name.starts_with("lb_tc_") || info->name.starts_with("lb_pod_"));
}

boost::system::result<Held> put_filter(int device, TcSide side, int program, HookState done) {
  auto hook = hook_of(device, side);
  auto place = place_of(side);
  place.prog_fd = program;
  place.flags = done == HookState::updated ? BPF_TC_F_REPLACE : 0;
  if (const int error = bpf_tc_hook_create(&hook); error != 0 && error != -EEXIST) {
    return error_of(error);
  }
  if (const int error = bpf_tc_attach(&hook, &place); error != 0) {
    return error_of(error);
  }
  const auto loaded = program_info(program);
  return Held{done, loaded ? loaded->id : 0};
}

}  // namespace

boost::system::result<Held> ensure_clsact(int device, TcSide side, int program) {
  const auto running = program_at(device, side);
  if (running == 0) {
    return put_filter(device, side, program, HookState::attached);
  }
  if (!is_ours(running)) {
    return error_of(-EEXIST);
  }
  if (same_program(running, program)) {
    return Held{HookState::kept, running};
  }
  return put_filter(device, side, program, HookState::updated);
}

void remove_clsact(int device, TcSide side) {
  if (!has_clsact(device, side)) {
    return;
  }
  const auto hook = hook_of(device, side);
  const auto place = place_of(side);
  bpf_tc_detach(&hook, &place);
}

bool runs_clsact(int device, TcSide side, std::uint32_t program) {
  return program_at(device, side) == program;
}

bool has_clsact(int device, TcSide side) {
  const auto running = program_at(device, side);
  return running != 0 && is_ours(running);
}

}  // namespace lb::agent
