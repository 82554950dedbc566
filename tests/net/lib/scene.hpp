// SPDX-License-Identifier: Apache-2.0
// Services written directly into the maps, and sockets that use them: the tools of the socket tests.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "k8s/objects/model.hpp"
#include "maps/mapset.hpp"

namespace lb::test {

/// An address and a port; as text "10.96.0.1:80" or "[fd00::1]:80".
struct End {
  k8s::Address address;
  std::uint16_t port = 0;
  bool operator==(const End&) const = default;
};

[[nodiscard]] End end(const std::string& address, std::uint16_t port);
[[nodiscard]] std::string text(const End& where);
/// An address as the kernel writes it.
[[nodiscard]] End end_of(const sockaddr_storage& raw);

struct BackendSpec {
  std::uint32_t id = 0;
  End where;
  lb_bool serving = LB_YES;
  lb_locality locality = LB_ELSEWHERE;
};

/// Writes maps as the agent would: backends, sets, then frontends.
class Writer {
 public:
  explicit Writer(const std::string& pins);

  /// Writes a service: `backends` are its cluster set, `local` its local set.
  void service(std::uint32_t number, const std::vector<BackendSpec>& backends, lb_policy policy = {},
               const std::vector<BackendSpec>& local = {});
  void backend(std::uint32_t service, const BackendSpec& backend);
  void frontend(const End& where, lb_protocol protocol, std::uint32_t service, lb_kind kind = LB_CLUSTER_IP);
  void remove_frontend(const End& where, lb_protocol protocol);
  /// Adds a node port frontend at the unspecified address of `family_of`'s family.
  void node_port(const k8s::Address& family_of, std::uint16_t port, lb_protocol protocol,
                 std::uint32_t service);
  void address(const std::string& address, lb_address_kind kind);
  /// Adds a prefix to a service's source ranges.
  void range(std::uint32_t service, const std::string& prefix);
  /// Writes a frontend whose value does not match its key, as a reader may see while an element is reused.
  void wrong_frontend(const End& where, lb_protocol protocol, std::uint32_t service);
  /// Points a service's only slot to a backend of another service.
  void stale_slot(std::uint32_t service, std::uint32_t backend);

  [[nodiscard]] lb_stats counters() const;

 private:
  void note(const End& where, lb_kind kind);

  maps::MapSet maps_;
};

/// How much each counter increased while `act` ran.
[[nodiscard]] lb_stats counter_deltas(const Writer& writer, const std::function<void()>& act);

/// A socket of one family; IPv4 addresses go through an IPv6 socket as ::ffff:a.b.c.d.
class Socket {
 public:
  Socket(int family, int type, int protocol = 0);
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Returns 0 or errno, as do all functions below that return int.
  [[nodiscard]] int bind(const End& where) const;
  [[nodiscard]] int listen() const;
  [[nodiscard]] int connect(const End& where) const;
  [[nodiscard]] int send_to(const End& where, const std::string& words, int flags = 0) const;
  [[nodiscard]] int send(const std::string& words) const;

  struct Message {
    std::string words;
    End from;
  };
  /// Waits at most a second for a message.
  [[nodiscard]] std::optional<Message> receive() const;
  /// The address of a client that connects; waits at most a second.
  [[nodiscard]] std::optional<End> accept() const;
  [[nodiscard]] std::optional<End> peer() const;
  /// The local address.
  [[nodiscard]] std::optional<End> name() const;

 private:
  int family_;
  maps::Fd fd_;
};

/// Whether there is something to receive, or a connection to accept, within that time.
[[nodiscard]] bool is_readable(int fd, std::chrono::milliseconds timeout);

/// The remote address of a connected socket.
[[nodiscard]] std::optional<End> peer_of(int connected);

/// Receives one message and sends it back; returns its source, or nullopt if none comes within a second.
std::optional<End> echo_once(const Socket& server);

}  // namespace lb::test
