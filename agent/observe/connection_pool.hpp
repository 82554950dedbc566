// SPDX-License-Identifier: Apache-2.0
// Bounds the connections of one or several servers: at the bound, the client that has most of them loses its
// oldest one, so clients of other addresses are served however many connections one of them holds open. Of
// clients that have equally many, the one whose oldest is older loses it: a connection without end makes room
// for a probe, whatever their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace lb::agent {

class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  /// At most `limit` connections, at least one. To be made by std::make_shared.
  explicit ConnectionPool(std::size_t limit) : limit_(limit > 0 ? limit : 1) {}
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  /// A connection's place in the pool, until it ends.
  class Place {
   public:
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&&) = delete;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (pool_) {
        pool_->remove(number_);
      }
    }

   private:
    friend class ConnectionPool;
    Place(std::shared_ptr<ConnectionPool> pool, std::uint64_t number)
        : pool_(std::move(pool)), number_(number) {}
    std::shared_ptr<ConnectionPool> pool_;
    std::uint64_t number_;
  };

  /// Adds a connection of `client`, by its address. `close` is called at most once, if the connection has to
  /// make room; it may not call the pool.
  [[nodiscard]] Place admit(const std::string& client, std::function<void()> close);
  [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }

 private:
  struct Connection {
    std::string client;
    std::function<void()> close;
  };

  void remove(std::uint64_t number);
  void make_room();
  void change(const std::string& client, const std::function<void(std::set<std::uint64_t>&)>& with);

  std::size_t limit_;
  std::uint64_t last_ = 0;                                  ///< number of the newest connection
  std::map<std::uint64_t, Connection> connections_;         ///< by number
  std::map<std::string, std::set<std::uint64_t>> clients_;  ///< the connections of each
  /// Of each client the number of its connections, and the complement of its oldest one's number: the last is
  /// the next to make room.
  std::set<std::pair<std::size_t, std::uint64_t>> counts_;
};

/// The client of an address, 4 or 16 bytes: an IPv6 client is a /64, of which it may have all addresses.
[[nodiscard]] std::string client_of(const unsigned char* address, std::size_t bytes);

}  // namespace lb::agent
