// A node with two pods whose sockets no hook translates, and another node: what the tests of pods' packets
// are told with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/datapath.hpp"
#include "tests/net/lab.hpp"
#include "tests/net/scene.hpp"

namespace lb::test {

/// How pods' devices reach the node: each by a route of its own, or all on one bridge.
enum class Wiring : std::uint8_t { routed, bridged };

/// Makes sockets of a namespace while the thread stays where it is.
class Host {
 public:
  Host();
  [[nodiscard]] const Namespace& space() const noexcept { return space_; }
  [[nodiscard]] Socket socket(int family, int type) const;
  void run(const std::string& command) const;

 private:
  Namespace space_;
};

/// Addresses by family: AF_INET or AF_INET6.
struct PodNames {
  std::string client, server, remote, node, service;
};
[[nodiscard]] const PodNames& names(int family);

class PodScene {
 public:
  explicit PodScene(Wiring wiring);

  /// Another pod: its host end is called `device`.
  void connect_pod(const Host& pod, const std::string& device, int number);
  /// Tells the datapath of the devices there are now and attaches.
  agent::AttachReport attach();

  Lab lab;
  agent::AgentOptions options;
  Host client, server, remote;
  std::optional<agent::Datapath> datapath;

 private:
  Wiring wiring_;
};

/// One exchange with `where` from a socket of the host: did words go there and come back from where they
/// went, and from whom did the server see them come?
[[nodiscard]] std::optional<End> exchange(const Host& client, const Socket& server, int type,
                                          const End& where);

}  // namespace lb::test
