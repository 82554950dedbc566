// A node with two pods whose sockets no hook translates, another node and an external client, all on one
// network: the environment of the packet tests.
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

/// How pods' devices reach the node: each by a route of its own, or all on one bridge.
enum class Wiring : std::uint8_t { routed, bridged };

/// A command that runs until this object goes, or ends by itself before.
class Running {
 public:
  explicit Running(pid_t process) : process_(process) {}
  Running(Running&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  Running& operator=(Running&&) = delete;
  ~Running();
  /// Waits until it has ended; its exit code, 128 and more for a signal.
  [[nodiscard]] int wait();
  /// As control-C would.
  void interrupt() const;

 private:
  pid_t process_;
};

using MacAddress = std::array<std::uint8_t, 6>;

/// Makes sockets of a namespace while the thread stays where it is.
class Host {
 public:
  Host();
  /// The namespace that the thread is in.
  [[nodiscard]] static Host here();
  [[nodiscard]] const Namespace& space() const noexcept { return namespace_; }
  [[nodiscard]] Socket socket(int family, int type) const;
  void run(const std::string& command) const;
  /// Of a device there: asked by system calls, since a command may fail for want of anything.
  [[nodiscard]] int device_index(const char* device) const;
  [[nodiscard]] MacAddress mac_address(const char* device) const;
  /// The words that a command writes, for a shell; its exit code is nobody's business.
  [[nodiscard]] std::string output(const std::string& command) const;
  /// Begins a command of a shell that is left to itself; its output goes nowhere.
  [[nodiscard]] Running start(const std::string& command) const;

 private:
  explicit Host(Namespace space) : namespace_(std::move(space)) {}
  Namespace namespace_;
};

/// Addresses by family: AF_INET or AF_INET6.
struct PodNames {
  std::string client, server, remote, node, service;
  std::string remote_pod;  ///< on the other node
  std::string outside;     ///< a client that is no node's
  std::string vip;         ///< a load balancer's address, which outside routes to the node
  std::string second;      ///< another address of the node, routed likewise
  std::string pods;        ///< every node's pods
};
[[nodiscard]] const PodNames& names(int family);

class PodScene {
 public:
  explicit PodScene(Wiring wiring);

  /// Another pod: its host end is called `device`.
  void connect_pod(const Host& pod, const std::string& device, int number);
  /// Lets all but the node complete their checksums, as cards would do: before XDP, which sends on what a
  /// veth hands to it.
  void check_sums() const;
  /// Wanted, and not switched off for the whole run.
  [[nodiscard]] bool runs_xdp() const;
  /// Tells the datapath of the devices there are now and attaches.
  agent::AttachReport attach();

  Lab lab;
  agent::AgentOptions options;
  Host wire;  ///< the bridge between eth0 of the node, of `remote` and of `outside`
  Host client, server, remote, outside;
  std::optional<agent::Datapath> datapath;

 private:
  void lay_wire();
  void join(const Host& host, const std::string& port, int number);

  Wiring wiring_;
};

/// One exchange with `where` from a socket of the host: did words go there and come back from where they
/// went, and from whom did the server see them come?
[[nodiscard]] std::optional<End> exchange(const Host& client, const Socket& server, int type,
                                          const End& where);

}  // namespace lb::test
