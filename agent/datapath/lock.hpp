// SPDX-License-Identifier: Apache-2.0
// Allows one agent at a time on a pin directory: a lock that is released when the process ends, however it
// ends (REL-40).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "agent/base/cgroup.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// Held while the agent runs. A start that pinned nothing leaves no directory behind, and unmounts the file
/// system if it mounted it.
class PinLock {
 public:
  PinLock(PinLock&&) = default;
  PinLock& operator=(PinLock&&) = default;
  PinLock(const PinLock&) = delete;
  PinLock& operator=(const PinLock&) = delete;
  ~PinLock();

  /// Creates the directories (prepare_pins) and locks them. Throws StartError if another agent holds the
  /// lock.
  [[nodiscard]] static PinLock take(const maps::Pins& pins);
  /// Likewise without creating anything: nullopt if there is no such directory.
  [[nodiscard]] static std::optional<PinLock> take_existing(const maps::Pins& pins);

  /// False if the directory was removed since, whether or not it was made again: the lock protects nothing
  /// then. Call it now and then: it also shows others this process's pid.
  [[nodiscard]] bool holds() const;
  /// Takes the lock again, on a directory that it makes. Throws StartError if another agent holds it.
  void renew();

 private:
  enum class Missing : std::uint8_t { made, left };
  [[nodiscard]] static std::optional<PinLock> try_take(const maps::Pins& pins, Missing missing);
  PinLock(maps::Pins pins, maps::Fd fd, BpfMount mount)
      : pins_(std::move(pins)), fd_(std::move(fd)), mount_(mount) {}

  maps::Pins pins_;
  maps::Fd fd_;
  BpfMount mount_;
};

enum class AgentState : std::uint8_t { running, absent };

struct AgentPresence {
  AgentState state = AgentState::absent;
  std::optional<pid_t> pid;  ///< as this process sees it; nullopt: unknown
  /// Time of the last heartbeat of an agent, of any layout; nullopt: there are no pins.
  std::optional<std::chrono::system_clock::time_point> last_heartbeat = std::nullopt;
};

/// Records that an agent runs, as the mtime of the layout's directory: `status` shows it once no agent runs.
void record_heartbeat(const maps::Pins& pins);

/// How long to wait for the pid of an agent that runs: it shows it again with each heartbeat, because any
/// descriptor of the directory that it closes hides it.
enum class PidWait : std::uint8_t { none, a_heartbeat };

/// Finds out whether an agent holds the lock of this directory, and its pid and last heartbeat.
[[nodiscard]] AgentPresence find_agent(const maps::Pins& pins, PidWait wait = PidWait::none);

}  // namespace lb::agent
