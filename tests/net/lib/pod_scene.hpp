// SPDX-License-Identifier: Apache-2.0
// A node with two pods without socket programs, another node and an external client, all on one network: the
// environment of the packet tests.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "agent/datapath/datapath.hpp"
#include "tests/net/lib/lab.hpp"
#include "tests/net/lib/scene.hpp"

namespace lb::test {

/// How the pods' devices are connected to the node: each by its own route, or all by one bridge.
enum class Wiring : std::uint8_t { routed, bridged };

/// A command that runs until this object is destroyed or the command ends by itself.
class Running {
 public:
  explicit Running(pid_t process) : process_(process) {}
  Running(Running&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  Running& operator=(Running&&) = delete;
  ~Running();
  /// Waits until the command has ended; returns its exit code, 128 and more for a signal.
  [[nodiscard]] int wait();
  /// Sends SIGINT, as control-C does.
  void interrupt() const;

 private:
  pid_t process_;
};

using MacAddress = std::array<std::uint8_t, 6>;

/// A network namespace in which sockets are made and commands run; the calling thread stays in its own.
class Host {
 public:
  Host();
  /// The calling thread's namespace.
  [[nodiscard]] static Host here();
  [[nodiscard]] const Namespace& space() const noexcept { return namespace_; }
  [[nodiscard]] Socket socket(int family, int type) const;
  void run(const std::string& command) const;
  /// Properties of a device in the namespace, by system calls, because a command may fail for lack of any
  /// resource.
  [[nodiscard]] int device_index(const char* device) const;
  [[nodiscard]] MacAddress mac_address(const char* device) const;
  /// The standard output of a shell command; its exit code is ignored.
  [[nodiscard]] std::string output(const std::string& command) const;
  /// Starts a shell command in the background; its output is discarded.
  [[nodiscard]] Running start(const std::string& command) const;

 private:
  explicit Host(Namespace space) : namespace_(std::move(space)) {}
  Namespace namespace_;
};

/// Addresses of one family: AF_INET or AF_INET6.
struct PodNames {
  std::string client, server, remote, node, service;
  std::string remote_pod;  ///< a pod on the other node
  std::string outside;     ///< a client outside of the cluster
  std::string vip;         ///< a load balancer's address, which `outside` routes to the node
  std::string second;      ///< a second address of the node, routed likewise
  std::string pods;        ///< the prefix of all nodes' pods
};
[[nodiscard]] const PodNames& names(int family);

class PodScene {
 public:
  explicit PodScene(Wiring wiring);

  /// Connects another pod; `device` is the name of its host end.
  void connect_pod(const Host& pod, const std::string& device, int number);
  /// Makes all hosts but the node compute their checksums, as network cards would: XDP forwards a frame from
  /// a veth with the checksum that it finds.
  void check_sums() const;
  /// Whether XDP is wanted, and not switched off for the whole run.
  [[nodiscard]] bool runs_xdp() const;
  /// Tells the datapath which devices exist now, and attaches.
  agent::AttachReport attach();

  Lab lab;
  agent::AgentOptions options;
  Host wire;  ///< the bridge between eth0 of the node, of `remote` and of `outside`
  Host client, server, remote, outside;
  std::optional<agent::PinLock> lock;  ///< of the pins, if the scene takes it
  std::optional<agent::Datapath> datapath;

 private:
  void lay_wire();
  void join(const Host& host, const std::string& port, int number);

  Wiring wiring_;
};

/// One exchange with `where` from a socket of the host. Returns the client's address that the server saw, or
/// nullopt unless the message arrived and its reply came from `where`.
[[nodiscard]] std::optional<End> exchange(const Host& client, const Socket& server, int type,
                                          const End& where);

}  // namespace lb::test
