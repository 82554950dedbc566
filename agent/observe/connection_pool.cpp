// SPDX-License-Identifier: Apache-2.0
// Keeps the clients ordered by the number of their connections.
#include "agent/observe/connection_pool.hpp"

#include <algorithm>
#include <array>

namespace lb::agent {

ConnectionPool::Place ConnectionPool::admit(const std::string& client, std::function<void()> close) {
  if (connections_.size() >= limit_) {
    make_room();
  }
  const auto number = ++last_;
  connections_[number] = {client, std::move(close)};
  change(client, [&](auto& own) { own.insert(number); });
  return {shared_from_this(), number};
}

void ConnectionPool::remove(std::uint64_t number) {
  const auto connection = connections_.find(number);
  if (connection == connections_.end()) {
    return;  // it made room
  }
  const auto client = std::move(connection->second.client);
  connections_.erase(connection);
  change(client, [&](auto& own) { own.erase(number); });
}

/// The client with most connections loses its oldest one.
void ConnectionPool::make_room() {
  const auto oldest = ~counts_.rbegin()->second;
  const auto close = std::move(connections_[oldest].close);
  remove(oldest);
  close();
}

/// Changes the set of a client's connections, and its place in the order.
void ConnectionPool::change(const std::string& client,
                            const std::function<void(std::set<std::uint64_t>&)>& with) {
  auto& own = clients_[client];
  if (!own.empty()) {
    counts_.erase({own.size(), ~*own.begin()});
  }
  with(own);
  if (own.empty()) {
    clients_.erase(client);
  } else {
    counts_.emplace(own.size(), ~*own.begin());
  }
}

std::string client_of(const unsigned char* address, std::size_t bytes) {
  constexpr std::array<unsigned char, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::size_t network = 8;
  if (bytes > mapped.size() && std::equal(mapped.begin(), mapped.end(), address)) {
    return {address + mapped.size(), address + bytes};
  }
  return {address, address + (bytes > network ? network : bytes)};
}

}  // namespace lb::agent
