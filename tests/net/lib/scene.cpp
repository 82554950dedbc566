// SPDX-License-Identifier: Apache-2.0
// Writes maps and calls the sockets API.
#include "tests/net/lib/scene.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "maps/abi/checks.h"

namespace lb::test {
namespace {

void require(boost::system::error_code error, const char* what) {
  if (error) {
    throw std::runtime_error(fmt::format("{}: {}", what, error.message()));
  }
}

maps::MapSet open_maps(const std::string& pins) {
  auto opened = maps::MapSet::open(maps::Pins(pins), maps::Access::write);
  if (!opened) {
    throw std::runtime_error(opened.error().message());
  }
  return std::move(*opened);
}

lb_frontend_key key_of(const End& where, lb_protocol protocol) {
  lb_frontend_key key{};
  std::ranges::copy(where.address.bytes, key.address);
  key.port = where.port;
  key.protocol = protocol;
  return key;
}

lb_address_key key_of(const k8s::Address& address) {
  lb_address_key key{};
  std::ranges::copy(address.bytes, key.address);
  return key;
}

lb_frontend frontend_of(const lb_frontend_key& key, std::uint32_t service, lb_kind kind) {
  lb_frontend frontend{};
  frontend.service = service;
  frontend.kind = kind;
  frontend.check = lb_frontend_check(&key);
  return frontend;
}

// One extent per service, of fixed size: these tests need no more.
constexpr std::uint32_t extent = 8;

struct Raw {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Raw raw_of(int family, const End& where) {
  Raw raw;
  if (family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(where.port);
    std::memcpy(&in.sin_addr, where.address.bytes.data() + 12, 4);
    std::memcpy(&raw.storage, &in, sizeof(in));
    raw.size = sizeof(in);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(where.port);
    std::memcpy(&in.sin6_addr, where.address.bytes.data(), 16);
    std::memcpy(&raw.storage, &in, sizeof(in));
    raw.size = sizeof(in);
  }
  return raw;
}

End end_of(const Raw& raw) { return test::end_of(raw.storage); }

int error_of(long result) { return result < 0 ? errno : 0; }

}  // namespace

End end_of(const sockaddr_storage& raw) {
  End where;
  if (raw.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &raw, sizeof(in));
    where.address = *k8s::Address::parse("0.0.0.0");
    std::memcpy(where.address.bytes.data() + 12, &in.sin_addr, 4);
    where.port = ntohs(in.sin_port);
  } else {
    sockaddr_in6 in{};
    std::memcpy(&in, &raw, sizeof(in));
    std::memcpy(where.address.bytes.data(), &in.sin6_addr, 16);
    where.port = ntohs(in.sin6_port);
  }
  return where;
}

End end(const std::string& address, std::uint16_t port) {
  const auto parsed = k8s::Address::parse(address);
  if (!parsed) {
    throw std::runtime_error(address + " is no address");
  }
  return {*parsed, port};
}

std::string text(const End& where) {
  const auto address = where.address.text();
  return where.address.family() == k8s::Family::ipv4 ? fmt::format("{}:{}", address, where.port)
                                                     : fmt::format("[{}]:{}", address, where.port);
}

Writer::Writer(const std::string& pins) : maps_(open_maps(pins)) {}

void Writer::backend(std::uint32_t service, const BackendSpec& backend) {
  lb_backend value{};
  std::ranges::copy(backend.where.address.bytes, value.address);
  value.service = service;
  value.in_cluster = LB_YES;
  value.serving = backend.serving;
  value.locality = backend.locality;
  value.port = backend.where.port;
  value.weight = 1;
  maps_.backends.store(backend.id, value);
}

void Writer::service(std::uint32_t number, const std::vector<BackendSpec>& backends, lb_policy policy,
                     const std::vector<BackendSpec>& local) {
  const auto first = number * extent;
  std::uint32_t count = 0;
  for (const auto& spec : backends) {
    backend(number, spec);
    maps_.slots.store(first + count++, spec.id);
  }
  lb_service service{};
  service.cluster = {first, count};
  for (const auto& spec : local) {
    backend(number, spec);
    maps_.slots.store(first + count++, spec.id);
  }
  service.local = {first + service.cluster.count, count - service.cluster.count};
  service.policy = policy;
  maps_.services.store(number, service);
}

void Writer::frontend(const End& where, lb_protocol protocol, std::uint32_t service, lb_kind kind) {
  const auto key = key_of(where, protocol);
  require(maps_.frontends.put(key, frontend_of(key, service, kind), maps::Put::any), "frontend");
  note(where, kind);
}

/// Notes the address or node port as the agent would, but other ports of a ClusterIP are refused only if
/// address() says so.
void Writer::note(const End& where, lb_kind kind) {
  if (kind == LB_NODE_PORT) {
    const std::uint32_t word = where.port / 64;
    maps_.reserved.store(word, maps_.reserved.load(word) | std::uint64_t{1} << where.port % 64);
  } else if (!maps_.addresses.get(key_of(where.address))) {
    address(where.address.text(), LB_SERVICE_ADDRESS);
  }
}

void Writer::remove_frontend(const End& where, lb_protocol protocol) {
  require(maps_.frontends.erase(key_of(where, protocol)), "frontend");
}

void Writer::node_port(const k8s::Address& family_of, std::uint16_t port, lb_protocol protocol,
                       std::uint32_t service) {
  const auto* zero = family_of.family() == k8s::Family::ipv4 ? "0.0.0.0" : "::";
  frontend(end(zero, port), protocol, service, LB_NODE_PORT);
}

void Writer::address(const std::string& address, lb_address_kind kind) {
  const auto key = key_of(end(address, 0).address);
  lb_address value{};
  value.kind = kind;
  value.check = lb_address_check(&key);
  require(maps_.addresses.put(key, value, maps::Put::any), "address");
}

void Writer::range(std::uint32_t service, const std::string& prefix) {
  const auto parsed = k8s::Prefix::parse(prefix).value();
  lb_range_key key{};
  key.prefix = 32U + parsed.length;
  key.service = service;
  std::ranges::copy(parsed.address.bytes, key.address);
  require(maps_.ranges.put(key, {.service = service}, maps::Put::any), "range");
}

void Writer::wrong_frontend(const End& where, lb_protocol protocol, std::uint32_t service) {
  const auto key = key_of(where, protocol);
  auto value = frontend_of(key, service, LB_CLUSTER_IP);
  value.check = static_cast<std::uint16_t>(value.check ^ 1);
  require(maps_.frontends.put(key, value, maps::Put::any), "frontend");
}

void Writer::stale_slot(std::uint32_t service, std::uint32_t backend) {
  maps_.slots.store(service * extent, backend);
}

lb_stats Writer::counters() const {
  auto stats = maps_.stats();
  require(stats ? boost::system::error_code() : stats.error(), "counters");
  return *stats;
}

lb_stats counter_deltas(const Writer& writer, const std::function<void()>& act) {
  const auto before = writer.counters();
  act();
  auto after = writer.counters();
  std::array<std::uint64_t, LB_OUTCOME_COUNT> old_counts{};
  std::array<std::uint64_t, LB_OUTCOME_COUNT> counts{};
  std::memcpy(old_counts.data(), &before, sizeof(before));
  std::memcpy(counts.data(), &after, sizeof(after));
  for (std::size_t outcome = 0; outcome < counts.size(); ++outcome) {
    counts[outcome] -= old_counts[outcome];
  }
  std::memcpy(&after, counts.data(), sizeof(after));
  return after;
}

Socket::Socket(int family, int type, int protocol)
    : family_(family), fd_(::socket(family, type | SOCK_CLOEXEC, protocol)) {
  if (!fd_) {
    throw std::runtime_error(std::strerror(errno));
  }
}

int Socket::bind(const End& where) const {
  const int yes = 1;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  auto raw = raw_of(family_, where);
  return error_of(::bind(fd_.get(), raw.get(), raw.size));
}

int Socket::listen() const { return error_of(::listen(fd_.get(), 64)); }

int Socket::connect(const End& where) const {
  auto raw = raw_of(family_, where);
  return error_of(::connect(fd_.get(), raw.get(), raw.size));
}

int Socket::send_to(const End& where, const std::string& words, int flags) const {
  auto raw = raw_of(family_, where);
  return error_of(::sendto(fd_.get(), words.data(), words.size(), MSG_NOSIGNAL | flags, raw.get(), raw.size));
}

int Socket::send(const std::string& words) const {
  return error_of(::send(fd_.get(), words.data(), words.size(), MSG_NOSIGNAL));
}

bool is_readable(int fd, std::chrono::milliseconds timeout) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(timeout.count())) == 1;
}

std::optional<Socket::Message> Socket::receive() const {
  std::array<char, 65536> buffer{};
  Raw raw;
  if (!is_readable(fd_.get(), std::chrono::seconds(1))) {
    return std::nullopt;
  }
  const auto size = ::recvfrom(fd_.get(), buffer.data(), buffer.size(), 0, raw.get(), &raw.size);
  if (size < 0) {
    return std::nullopt;
  }
  return Message{std::string(buffer.data(), static_cast<std::size_t>(size)), end_of(raw)};
}

std::optional<End> Socket::accept() const {
  Raw raw;
  if (!is_readable(fd_.get(), std::chrono::seconds(1))) {
    return std::nullopt;
  }
  const maps::Fd taken(::accept4(fd_.get(), raw.get(), &raw.size, SOCK_CLOEXEC));
  return taken ? std::optional(end_of(raw)) : std::nullopt;
}

std::optional<End> Socket::peer() const { return peer_of(fd_.get()); }

std::optional<End> Socket::name() const {
  Raw raw;
  return ::getsockname(fd_.get(), raw.get(), &raw.size) == 0 ? std::optional(end_of(raw)) : std::nullopt;
}

std::optional<End> peer_of(int connected) {
  Raw raw;
  return ::getpeername(connected, raw.get(), &raw.size) == 0 ? std::optional(end_of(raw)) : std::nullopt;
}

std::optional<End> echo_once(const Socket& server) {
  const auto message = server.receive();
  if (!message || server.send_to(message->from, message->words) != 0) {
    return std::nullopt;
  }
  return message->from;
}

}  // namespace lb::test
