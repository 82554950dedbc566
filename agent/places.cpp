// Directories, mounts and file system types.
#include "agent/places.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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

#include "agent/error.hpp"

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

void mount_bpf() {
  if (::mount("bpf", usual_mount, "bpf", 0, "mode=0700") != 0) {
    throw StartError(
        fmt::format("cannot mount the bpf file system at {} ({}): run as root, or mount it by 'mount -t bpf "
                    "bpf {}'",
                    usual_mount, std::strerror(errno), usual_mount));
  }
}

void require_bpf_file_system(const std::string& pins) {
  if (is_on(existing_part(pins), BPF_FS_MAGIC)) {
    return;
  }
  const bool below_usual = pins.starts_with(std::string(usual_mount) + "/");
  if (!below_usual) {
    throw StartError(
        fmt::format("{} is not on a bpf file system: choose --pins below {}", pins, usual_mount));
  }
  mount_bpf();
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw StartError(fmt::format("cannot make the directory {} ({}): run as root, or choose another --pins",
                                 path, std::strerror(errno)));
  }
}

std::string cgroup_root() {
  std::ifstream mounts("/proc/self/mounts");
  std::string device;
  std::string directory;
  std::string type;
  std::string rest;
  while (mounts >> device >> directory >> type && std::getline(mounts, rest)) {
    if (type == "cgroup2") {
      return directory;
    }
  }
  throw StartError(
      "no cgroup v2 file system is mounted: mount one by 'mount -t cgroup2 cgroup2 /sys/fs/cgroup', or "
      "switch the socket programs off with --sockets off");
}

bool is_mount_root(int directory) {
  struct statx status{};
  return ::statx(directory, "", AT_EMPTY_PATH, STATX_INO, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace

void prepare_pins(const maps::Pins& pins) {
  require_bpf_file_system(pins.base());
  for (const auto& path : {pins.base(), pins.version(), pins.maps(), pins.links()}) {
    make_directory(path);
  }
}

void remove_empty_pins(const maps::Pins& pins) {
  for (const auto& path : {pins.links(), pins.maps(), pins.version(), pins.base()}) {
    ::rmdir(path.c_str());
  }
}

Cgroup open_cgroup(const std::string& path) {
  const auto chosen = path.empty() ? cgroup_root() : path;
  maps::Fd directory(::open(chosen.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    throw StartError(
        fmt::format("cannot open the cgroup {} ({}): choose another --cgroup", chosen, std::strerror(errno)));
  }
  if (!is_on(chosen, CGROUP2_SUPER_MAGIC)) {
    throw StartError(
        fmt::format("{} is not in a cgroup v2 file system: choose another --cgroup, or switch the socket "
                    "programs off with --sockets off",
                    chosen));
  }
  struct stat status{};
  ::fstat(directory.get(), &status);
  if (is_mount_root(directory.get()) && status.st_ino != host_root_cgroup) {
    throw StartError(
        fmt::format("{} is the root of a cgroup namespace, where no pod would be served: give the agent the "
                    "host's cgroup namespace, or the host's root cgroup as --cgroup",
                    chosen));
  }
  return {std::move(directory), status.st_ino, chosen};
}

bool is_cgroup(const Cgroup& cgroup) {
  struct stat status{};
  return ::stat(cgroup.path.c_str(), &status) == 0 && status.st_ino == cgroup.id;
}

}  // namespace lb::agent
