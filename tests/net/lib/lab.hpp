// SPDX-License-Identifier: Apache-2.0
// The environment of a net test: its own network namespace, cgroup and pins, removed at the end, even if the
// test is killed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/options/config.hpp"
#include "maps/map.hpp"
#include "maps/mapset.hpp"

namespace lb::test {

/// Runs a shell command; throws an error with its text if it fails.
void shell(const std::string& command);
/// The same, and returns the command's standard output.
[[nodiscard]] std::string shell_output(const std::string& command);
/// A shell command that waits until packets to this IPv6 address are local. The kernel adds the route after
/// the address, by a worker, which may have to wait for the removal of other namespaces' devices.
[[nodiscard]] std::string await_local_route(const std::string& address);
/// A shell command that waits until a device has the carrier of its peer. A worker notices it, on a busy
/// machine long after the peer is up, and until then the kernel drops what the device is to send.
[[nodiscard]] std::string await_carrier(const std::string& device);

/// Lets this process have that many descriptors.
void allow_descriptors(std::size_t count);

/// A network namespace that the calling thread can enter.
class Namespace {
 public:
  /// The calling thread's namespace.
  [[nodiscard]] static Namespace current();
  /// A new namespace with its loopback device up; the thread stays in its own.
  [[nodiscard]] static Namespace fresh();
  void enter() const;
  /// The path for `ip link set … netns PATH`; valid while this object lives.
  [[nodiscard]] std::string path() const;

 private:
  explicit Namespace(maps::Fd fd) : fd_(std::move(fd)) {}
  maps::Fd fd_;
};

/// The calling thread enters a new network namespace and the process a new cgroup, until this object is
/// destroyed. A child process cleans up after a killed test.
class Lab {
 public:
  Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;
  ~Lab();

  [[nodiscard]] const std::string& pins() const noexcept { return pins_; }
  [[nodiscard]] const std::string& cgroup() const noexcept { return cgroup_; }
  /// Options for sockets only with small maps, without the features that SLUICE_WITHOUT lists; all else by
  /// default.
  [[nodiscard]] agent::AgentOptions options() const;
  /// Makes another cgroup, a sibling of cgroup().
  [[nodiscard]] std::string make_cgroup(const std::string& suffix) const;
  void enter_cgroup(const std::string& path) const;

 private:
  void start_janitor();

  std::string pins_;
  std::string cgroup_;
  std::string home_;  ///< the cgroup to return to
  Namespace before_;
  maps::Fd alive_;  ///< closed when this process ends, which wakes the janitor
  pid_t janitor_ = 0;
};

}  // namespace lb::test
