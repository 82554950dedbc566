// SPDX-License-Identifier: Apache-2.0
// Creates, updates and pins BPF links.
#include "agent/programs/links.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <span>

#include "agent/base/system_error.hpp"
#include "agent/programs/program.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

/// The target of a link; 0 if its device or cgroup was removed.
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

// The kernel's limit of programs at one hook.
constexpr std::size_t max_programs = 64;

/// Errors of pinning: their numbers are errno values, which an attach call may also have, with other causes.
class PinErrors final : public boost::system::error_category {
 public:
  using error_category::message;
  [[nodiscard]] const char* name() const noexcept override { return "pin"; }
  [[nodiscard]] std::string message(int number) const override {
    return "cannot pin the link: " + system_error(number).message();
  }
};

const boost::system::error_category& pin_errors() {
  static const PinErrors errors;
  return errors;
}

std::uint32_t id_of(int program) {
  const auto info = program_info(program);
  return info ? info->id : 0;
}

}  // namespace

bool Links::same(std::uint32_t running, int loaded) {
  const auto [known, unknown] = compared_.try_emplace({running, loaded}, false);
  if (unknown) {
    known->second = same_program(running, loaded);
  }
  return known->second;
}

// An error if the pinned link is missing, broken or attached elsewhere: then a new one is needed.
boost::system::result<AttachResult> Links::adopt(int link, const LinkRequest& request) {
  bpf_link_info info{};
  std::uint32_t size = sizeof(info);
  if (link < 0 || bpf_link_get_info_by_fd(link, &info, &size) != 0) {
    return last_error();
  }
  if (target_of(info) != request.target_id) {
    return make_error_code(boost::system::errc::no_link);
  }
  if (request.program == left_out || same(info.prog_id, request.program)) {
    return AttachResult{HookState::kept, info.prog_id};
  }
  if (bpf_link_update(link, request.program, nullptr) != 0) {
    return last_error();
  }
  return AttachResult{HookState::updated, id_of(request.program)};
}

boost::system::result<AttachResult> Links::ensure(const LinkRequest& request) {
  const maps::Fd pinned(bpf_obj_get(path(request.pin).c_str()));
  auto adopted = adopt(pinned.get(), request);
  if (adopted || request.program == left_out) {
    return adopted;
  }
  return create(request);
}

// The new link replaces the old one's pin atomically; until then both may be attached, to different targets.
boost::system::result<AttachResult> Links::create(const LinkRequest& request) const {
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
    return error_code(errno, pin_errors());
  }
  return AttachResult{HookState::attached, id_of(request.program)};
}

bool Links::holds(const std::string& pin, std::uint64_t target_id) const {
  const maps::Fd link(bpf_obj_get(path(pin).c_str()));
  bpf_link_info info{};
  std::uint32_t size = sizeof(info);
  return link && bpf_link_get_info_by_fd(link.get(), &info, &size) == 0 && target_of(info) == target_id;
}

bool Links::pinned(const std::string& pin) const { return ::access(path(pin).c_str(), F_OK) == 0; }

std::optional<std::int64_t> Links::changed() const { return directory_changed(directory_); }

// Without bpf_link_detach() the kernel would detach only some time after the pin is removed.
void Links::remove(const std::string& pin) const {
  const auto file = path(pin);
  if (const maps::Fd link(bpf_obj_get(file.c_str())); link) {
    bpf_link_detach(link.get());
  }
  ::unlink(file.c_str());
}

// A BPF file system contains pinned objects and directories, but no ordinary files.
void Links::note(const std::string& name) const { ::mkdir(path(name).c_str(), 0700); }

bool Links::noted(const std::string& name) const {
  std::error_code error;
  return std::filesystem::is_directory(path(name), error);
}

void Links::forget(const std::string& name) const { ::rmdir(path(name).c_str()); }

std::vector<std::string> Links::notes(const std::string& prefix) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    auto name = entry.path().filename().string();
    if (name.starts_with(prefix) && entry.is_directory()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

void Links::prune(const std::set<std::string>& wanted) const {
  std::set<std::string> present;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    if (!entry.is_directory()) {
      present.insert(entry.path().filename().string());
    }
  }
  for (const auto& pin : present) {
    if (!wanted.contains(pin)) {
      remove(pin);
    }
  }
}

bool is_pin_error(const error_code& error) noexcept { return error.category() == pin_errors(); }

std::optional<bool> runs_at(int target, bpf_attach_type type, std::uint32_t program) {
  std::array<std::uint32_t, max_programs> programs{};
  struct bpf_prog_query_opts query{};
  query.sz = sizeof(query);
  query.prog_ids = programs.data();
  query.count = programs.size();
  if (bpf_prog_query_opts(target, type, &query) != 0) {
    return std::nullopt;
  }
  const auto running = std::span(programs).first(std::min<std::size_t>(query.count, programs.size()));
  return std::ranges::find(running, program) != running.end();
}

// The clock is read first, so that a change after the check has a later time than the returned one.
std::optional<std::int64_t> directory_changed(const std::string& path) {
  constexpr auto nanoseconds = [](const timespec& time) {
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  timespec tick{};
  struct stat status{};
  if (::clock_gettime(CLOCK_REALTIME_COARSE, &tick) != 0 || ::stat(path.c_str(), &status) != 0 ||
      nanoseconds(status.st_mtim) >= nanoseconds(tick)) {
    return std::nullopt;
  }
  return nanoseconds(status.st_mtim);
}

}  // namespace lb::agent
