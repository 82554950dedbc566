// The environment of a net test: its own network namespace, cgroup and pins, removed at the end, however it
// ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "agent/options/config.hpp"
#include "maps/map.hpp"
#include "maps/mapset.hpp"

namespace lb::test {

/// Runs a command line in a shell; throws with its text if it fails.
void shell(const std::string& command);

/// Of the calling thread.
class Namespace {
 public:
  /// The one the thread is in.
  [[nodiscard]] static Namespace current();
  /// A new one with its loopback device up; the thread stays where it is.
  [[nodiscard]] static Namespace fresh();
  void enter() const;
  /// For `ip link set … netns PATH`; valid while this object lives.
  [[nodiscard]] std::string path() const;

 private:
  explicit Namespace(maps::Fd fd) : fd_(std::move(fd)) {}
  maps::Fd fd_;
};

/// The calling thread enters its new network namespace and this process its new cgroup, until the end. A
/// child that outlives a killed test removes what is left.
class Lab {
 public:
  Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;
  ~Lab();

  [[nodiscard]] const std::string& pins() const noexcept { return pins_; }
  [[nodiscard]] const std::string& cgroup() const noexcept { return cgroup_; }
  /// Sockets alone, small maps, without the features that SLUICE_WITHOUT lists, everything else by default.
  [[nodiscard]] agent::AgentOptions options() const;
  /// Makes another cgroup, a sibling of cgroup().
  [[nodiscard]] std::string make_cgroup(const std::string& suffix) const;
  void enter_cgroup(const std::string& path) const;

 private:
  void start_janitor();

  std::string pins_;
  std::string cgroup_;
  std::string home_;  ///< the cgroup to go back to
  Namespace before_;
  maps::Fd alive_;  ///< closed when this process ends, which wakes the janitor
  pid_t janitor_ = 0;
};

}  // namespace lb::test
