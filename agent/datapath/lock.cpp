// SPDX-License-Identifier: Apache-2.0
// The lock on the pin directory: flock, and the pid of the holder.
#include "agent/datapath/lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "agent/base/error.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

// The kernel takes time to end a killed agent with all its maps, and `sluice status` may hold the lock for a
// moment.
constexpr int attempts = 100;
constexpr std::chrono::milliseconds between_attempts{20};

/// The whole file, as fcntl(2) takes it.
struct flock whole_file(short type) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  return range;
}

/// A second lock, of the kind that the kernel knows the holder's pid of, and reports it as the asking process
/// sees it: an agent in a pod has another pid on the node. Nothing is decided by it. The process loses it
/// when it closes any other descriptor of the directory, so it is taken again with each heartbeat.
void show_holder(int fd) {
  auto range = whole_file(F_RDLCK);
  ::fcntl(fd, F_SETLK, &range);
}

std::optional<pid_t> holder_of(int fd) {
  auto range = whole_file(F_WRLCK);
  const bool held = ::fcntl(fd, F_GETLK, &range) == 0 && range.l_type != F_UNLCK && range.l_pid > 0;
  return held ? std::optional(range.l_pid) : std::nullopt;
}

maps::Fd open_directory(const fs::path& path) {
  return maps::Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

std::optional<std::chrono::system_clock::time_point> beat_of(const fs::path& version) {
  struct stat status{};
  if (::stat(version.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec);
}

/// Heartbeat of our layout, or else of the newest other one, which a new agent has not taken over yet.
std::optional<std::chrono::system_clock::time_point> last_heartbeat(const maps::Pins& pins) {
  if (const auto ours = beat_of(pins.version())) {
    return ours;
  }
  const auto other = pins.other_layout();
  return other == 0 ? std::nullopt : beat_of(maps::Pins(pins.base(), other).version());
}

/// False if the directory was removed since it was opened, as by an agent whose start failed.
bool is_still(const fs::path& path, int fd) {
  struct stat there{};
  struct stat opened{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(fd, &opened) == 0 && there.st_dev == opened.st_dev &&
         there.st_ino == opened.st_ino;
}

}  // namespace

PinLock PinLock::take(const maps::Pins& pins) { return std::move(*try_take(pins, Missing::made)); }

std::optional<PinLock> PinLock::take_existing(const maps::Pins& pins) {
  return try_take(pins, Missing::left);
}

std::optional<PinLock> PinLock::try_take(const maps::Pins& pins, Missing missing) {
  const auto& directory = pins.base();
  std::optional<pid_t> holder;
  auto mount = BpfMount::found;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (missing == Missing::made && prepare_pins(pins) == BpfMount::made) {
      mount = BpfMount::made;
    }
    auto fd = open_directory(directory);
    if (!fd && errno == ENOENT && missing == Missing::left) {
      return std::nullopt;
    }
    if (!fd) {
      throw StartError(fmt::format("cannot open the pin directory {}: {}; run as root", directory.string(),
                                   std::generic_category().message(errno)));
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      holder = holder_of(fd.get());
      std::this_thread::sleep_for(between_attempts);
    } else if (is_still(directory, fd.get())) {
      show_holder(fd.get());
      return PinLock(pins, std::move(fd), mount);
    }
  }
  const auto pid = holder ? fmt::format(" (pid {})", *holder) : "";
  throw StartError(
      missing == Missing::made
          ? fmt::format("another agent{} uses the pins at {}; end it first, or give this one its own --pins",
                        pid, directory.string())
          : fmt::format("an agent{} runs on the pins at {} and would put everything back; end it first", pid,
                        directory.string()));
}

bool PinLock::holds() const {
  show_holder(fd_.get());
  return is_still(pins_.base(), fd_.get());
}

void PinLock::renew() {
  auto present = take(pins_);
  if (mount_ == BpfMount::made) {
    present.mount_ = BpfMount::made;
  }
  *this = std::move(present);
}

PinLock::~PinLock() {
  if (!fd_) {
    return;
  }
  remove_empty_pins(pins_);
  fd_ = {};
  std::error_code error;
  if (mount_ == BpfMount::made && !fs::exists(pins_.base(), error)) {
    unmount_bpf();
  }
}

void record_heartbeat(const maps::Pins& pins) { ::utimensat(AT_FDCWD, pins.version().c_str(), nullptr, 0); }

AgentPresence find_agent(const maps::Pins& pins, PidWait wait) {
  const auto fd = open_directory(pins.base());
  AgentPresence presence;
  presence.last_heartbeat = last_heartbeat(pins);
  if (fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    presence.state = AgentState::running;
    presence.pid = holder_of(fd.get());
    for (int attempt = 0; wait == PidWait::a_heartbeat && !presence.pid && attempt < attempts / 2;
         ++attempt) {
      std::this_thread::sleep_for(between_attempts);
      presence.pid = holder_of(fd.get());
    }
  }
  return presence;
}

}  // namespace lb::agent
