// Link calls of the kernel.
#include "agent/links.hpp"

#include <bpf/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "agent/program.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

error_code last_error() { return {errno, boost::system::generic_category()}; }

/// Where a link is attached; 0 when its device or cgroup is gone.
std::uint64_t target_of(const bpf_link_info& link) {
  switch (link.type) {
    case BPF_LINK_TYPE_CGROUP:
      return link.cgroup.cgroup_id;
    case BPF_LINK_TYPE_XDP:
      return link.xdp.ifindex;
    case BPF_LINK_TYPE_TCX:
      return link.tcx.ifindex;
    default:
      return 0;
  }
}

// Nothing where the pinned link is absent, broken or attached elsewhere: then a new one is needed.
boost::system::result<HookState> adopt(int link, const LinkRequest& request) {
  bpf_link_info info{};
  std::uint32_t size = sizeof(info);
  if (link < 0 || bpf_link_get_info_by_fd(link, &info, &size) != 0) {
    return last_error();
  }
  if (target_of(info) != request.target_id) {
    return make_error_code(boost::system::errc::no_link);
  }
  if (same_program(info.prog_id, request.program)) {
    return HookState::kept;
  }
  if (bpf_link_update(link, request.program, nullptr) != 0) {
    return last_error();
  }
  return HookState::updated;
}

}  // namespace

boost::system::result<HookState> Links::ensure(const LinkRequest& request) const {
  const maps::Fd pinned(bpf_obj_get(path(request.pin).c_str()));
  auto adopted = adopt(pinned.get(), request);
  if (adopted) {
    return adopted;
  }
  return create(request);
}

// The new link takes the old one's name in one step; until then both may be attached, to different targets.
boost::system::result<HookState> Links::create(const LinkRequest& request) const {
  const auto fresh = request.pin + "_new";
  remove(fresh);  // of a start that was killed here
  struct bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.flags = request.flags;
  const maps::Fd link(bpf_link_create(request.program, request.target, request.type, &options));
  if (!link) {
    return last_error();
  }
  if (bpf_obj_pin(link.get(), path(fresh).c_str()) != 0 ||
      std::rename(path(fresh).c_str(), path(request.pin).c_str()) != 0) {
    return last_error();
  }
  return HookState::attached;
}

// Without the call the kernel would detach some time after the pin is gone.
void Links::remove(const std::string& pin) const {
  const auto file = path(pin);
  if (const maps::Fd link(bpf_obj_get(file.c_str())); link) {
    bpf_link_detach(link.get());
  }
  ::unlink(file.c_str());
}

void Links::prune(const std::set<std::string>& wanted) const {
  std::set<std::string> present;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    present.insert(entry.path().filename().string());
  }
  for (const auto& pin : present) {
    if (!wanted.contains(pin)) {
      remove(pin);
    }
  }
}

}  // namespace lb::agent
