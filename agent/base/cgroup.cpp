// SPDX-License-Identifier: Apache-2.0
// Directories, mounts and file system types.
#include "agent/base/cgroup.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/base/error.hpp"

namespace lb::agent {
namespace {

constexpr const char* usual_mount = "/sys/fs/bpf";

bool is_on(const std::filesystem::path& path, long magic) {
  struct statfs status{};
  return ::statfs(path.c_str(), &status) == 0 && static_cast<long>(status.f_type) == magic;
}

std::filesystem::path existing_part(std::filesystem::path path) {
  std::error_code error;
  while (path.has_relative_path() && !std::filesystem::exists(path, error)) {
    path = path.parent_path();
  }
  return path;
}

StartError no_bpf_mount(int error) {
  return {fmt::format("no bpf file system is mounted at {}, and mounting it is refused ({})", usual_mount,
                      std::strerror(error)),
          fmt::format("run as root, or mount it by 'mount -t bpf bpf {}'", usual_mount)};
}

/// Why others could replace what root pins in the directory; empty if they cannot, or if there is no such
/// path. A bpf file system that was mounted without a mode lets everybody create directories.
std::string others_access(const std::filesystem::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    return {};
  }
  if (!S_ISDIR(status.st_mode)) {
    return "is no directory";
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    return fmt::format("belongs to user {}", status.st_uid);
  }
  const bool shared = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0;
  return shared ? fmt::format("can be written by others (mode {:04o})", status.st_mode & 07777) : "";
}

void require_own(const std::filesystem::path& path) {
  if (const auto why = others_access(path); !why.empty()) {
    throw StartError(fmt::format("{} {}: another user could replace what the agent pins", path.string(), why),
                     "remove it, or choose another --pins");
  }
}

/// Throws StartError if another user could replace what is pinned in the directories, or a directory above
/// them.
void require_own(const maps::Pins& pins) {
  require_own(pins.maps());
  require_own(pins.links());
  for (auto path = pins.version(); path.has_relative_path(); path = path.parent_path()) {
    require_own(path);
  }
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw StartError(fmt::format("cannot make the directory {} ({})", path, std::strerror(errno)),
                     "run as root, or choose another --pins");
  }
}

std::string cgroup_root() {
  auto mounts = cgroup_mounts(read_mounts());
  if (!mounts.version2.empty()) {
    return mounts.version2;
  }
  if (mounts.version1) {
    throw StartError("cgroup v1 alone is mounted, and socket programs need version 2",
                     "boot with it, or mount it beside by 'mkdir -p /sys/fs/cgroup/unified; mount -t cgroup2 "
                     "cgroup2 /sys/fs/cgroup/unified', or switch the socket programs off with --sockets off");
  }
  throw StartError(
      "no cgroup v2 file system is mounted",
      "mount one by 'mount -t cgroup2 cgroup2 /sys/fs/cgroup', or switch the socket programs off "
      "with --sockets off");
}

bool is_mount_root(int directory) {
  struct statx status{};
  return ::statx(directory, "", AT_EMPTY_PATH, STATX_INO, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Whether the directory has a cgroup, at most two levels below, of the kubelet's pods: "kubepods",
/// "kubepods.slice", "kubelet-kubepods.slice".
bool holds_pods(const std::filesystem::path& directory) {
  constexpr int max_depth = 2;  // kind has /kubelet.slice/kubelet-kubepods.slice
  std::error_code error;
  auto at = std::filesystem::recursive_directory_iterator(directory, error);
  for (const auto end = std::filesystem::recursive_directory_iterator(); !error && at != end;
       at.increment(error)) {
    if (!at->is_directory(error) || at.depth() + 1 >= max_depth) {
      at.disable_recursion_pending();
    }
    if (at->path().filename().string().find("kubepods") != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::string note_on(const Cgroup& cgroup) {
  if (!is_mount_root(cgroup.directory.get()) || cgroup.id == host_root_cgroup || holds_pods(cgroup.path)) {
    return {};
  }
  return fmt::format(
      "{} is the root of a cgroup namespace and holds no pods: only sockets of processes below it are "
      "served; if this node runs pods, give the agent the host's cgroup namespace, or the host's root cgroup "
      "as --cgroup",
      cgroup.path);
}

}  // namespace

BpfMount require_bpf_mount(const maps::Pins& pins, const Privileges& privileges) {
  const auto& base = pins.base().string();
  require_own(pins);
  if (is_on(existing_part(base), BPF_FS_MAGIC)) {
    return BpfMount::found;
  }
  if (!base.starts_with(std::string(usual_mount) + "/")) {
    throw StartError(fmt::format("{} is not on a bpf file system", base),
                     fmt::format("choose --pins below {}", usual_mount));
  }
  if (!has_capability(privileges, CAP_SYS_ADMIN)) {
    throw no_bpf_mount(EPERM);
  }
  if (!std::filesystem::is_directory(usual_mount)) {
    throw no_bpf_mount(ENOENT);
  }
  return BpfMount::made;
}

BpfMount prepare_pins(const maps::Pins& pins) {
  const auto mount = require_bpf_mount(pins, own_privileges(""));
  if (mount == BpfMount::made && ::mount("bpf", usual_mount, "bpf", 0, "mode=0700") != 0) {
    throw no_bpf_mount(errno);
  }
  for (const auto& path : {pins.base(), pins.version(), pins.maps(), pins.links()}) {
    make_directory(path);
  }
  require_own(pins);  // another user may have been faster
  return mount;
}

void unmount_bpf() { static_cast<void>(::umount2(usual_mount, 0)); }

std::string read_mounts() {
  std::ifstream file("/proc/self/mounts");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

CgroupMounts cgroup_mounts(const std::string& mounts) {
  std::istringstream lines(mounts);
  CgroupMounts found;
  std::string device;
  std::string directory;
  std::string type;
  std::string rest;
  while (lines >> device >> directory >> type && std::getline(lines, rest)) {
    if (type == "cgroup2" && found.version2.empty()) {
      found.version2 = directory;
    }
    found.version1 |= type == "cgroup";
  }
  return found;
}

void remove_empty_pins(const maps::Pins& pins) {
  for (const auto& path : {pins.links(), pins.maps(), pins.version(), pins.base()}) {
    ::rmdir(path.c_str());
  }
}

Cgroup open_cgroup(const std::string& path) {
  auto chosen = path.empty() ? cgroup_root() : path;
  // A hybrid host has version 1 at /sys/fs/cgroup, and all of version 2 below it.
  if (const auto hybrid = chosen + "/unified";
      !is_on(chosen, CGROUP2_SUPER_MAGIC) && is_on(hybrid, CGROUP2_SUPER_MAGIC)) {
    chosen = hybrid;
  }
  maps::Fd directory(::open(chosen.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    throw StartError(fmt::format("cannot open the cgroup {} ({})", chosen, std::strerror(errno)),
                     "choose another --cgroup");
  }
  if (!is_on(chosen, CGROUP2_SUPER_MAGIC)) {
    throw StartError(fmt::format("{} is not in a cgroup v2 file system", chosen),
                     "choose another --cgroup, or switch the socket programs off with --sockets off");
  }
  struct stat status{};
  ::fstat(directory.get(), &status);
  Cgroup cgroup{std::move(directory), status.st_ino, chosen, {}};
  cgroup.note = note_on(cgroup);
  return cgroup;
}

bool is_cgroup(const Cgroup& cgroup) {
  struct stat status{};
  return ::stat(cgroup.path.c_str(), &status) == 0 && status.st_ino == cgroup.id;
}

}  // namespace lb::agent
