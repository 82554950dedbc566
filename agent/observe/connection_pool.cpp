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
  auto& own = clients_[client];
  own.insert(number);
  count(client, own.size());
  return {shared_from_this(), number};
}

void ConnectionPool::remove(std::uint64_t number) {
  const auto connection = connections_.find(number);
  if (connection == connections_.end()) {
    return;  // it made room
  }
  const auto client = std::move(connection->second.client);
  connections_.erase(connection);
  auto& own = clients_[client];
  own.erase(number);
  count(client, own.size());
}

/// The client with most connections loses its oldest one.
void ConnectionPool::make_room() {
  const auto& busiest = counts_.rbegin()->second;
  const auto oldest = *clients_[busiest].begin();
  const auto close = std::move(connections_[oldest].close);
  remove(oldest);
  close();
}

/// Before: the set of the client's connections has changed by one.
void ConnectionPool::count(const std::string& client, std::size_t now) {
  counts_.erase({now - 1, client});
  counts_.erase({now + 1, client});
  if (now == 0) {
    clients_.erase(client);
  } else {
    counts_.emplace(now, client);
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
