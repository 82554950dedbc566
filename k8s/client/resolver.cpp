// SPDX-License-Identifier: Apache-2.0
// One thread for each resolution, because getaddrinfo(3) cannot be cancelled: it is abandoned, not joined.
#include "k8s/client/resolver.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "k8s/objects/raw_address.hpp"

namespace lb::k8s {
namespace {

namespace asio = boost::asio;

std::optional<Address> address_of(const sockaddr& from) {
  if (from.sa_family == AF_INET) {
    return read_address(std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(from).sin_addr, 1)));
  }
  if (from.sa_family == AF_INET6) {
    return read_address(std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, 1)));
  }
  return std::nullopt;
}

}  // namespace

LookupResult look_up_by_system(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return {{}, error == EAI_SYSTEM ? std::generic_category().message(errno) : ::gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  LookupResult result;
  for (const auto* each = found; each != nullptr; each = each->ai_next) {
    const auto address = address_of(*each->ai_addr);
    if (address && std::ranges::find(result.addresses, *address) == result.addresses.end()) {
      result.addresses.push_back(*address);
    }
  }
  return result;
}

/// Shared with the threads. They may use the context only under the lock, and only while it is not null.
struct Resolver::State : std::enable_shared_from_this<State> {
  State(asio::io_context& to, Lookup how) : context(&to), lookup(std::move(how)) {}

  void run(const std::string& host);
  void finish(const std::string& host, const LookupResult& result);

  std::mutex mutex;
  asio::io_context* context;
  Lookup lookup;
  std::map<std::string, std::vector<Done>> waiting;  ///< used in the context's thread only
};

void Resolver::State::run(const std::string& host) {
  auto result = lookup(host);
  const std::lock_guard lock(mutex);
  if (context != nullptr) {
    asio::post(*context,
               [self = shared_from_this(), host, result = std::move(result)] { self->finish(host, result); });
  }
}

void Resolver::State::finish(const std::string& host, const LookupResult& result) {
  const auto finished = waiting.extract(host);  // first: a callback may call resolve() for this host again
  if (finished.empty()) {
    return;
  }
  for (const auto& done : finished.mapped()) {
    done(result);
  }
}

Resolver::Resolver(asio::io_context& context, Lookup lookup)
    : state_(std::make_shared<State>(context, std::move(lookup))) {}

Resolver::~Resolver() {
  state_->waiting.clear();  // destroyed in the context's thread: the callbacks own objects of the context
  const std::lock_guard lock(state_->mutex);
  state_->context = nullptr;
}

void Resolver::resolve(const std::string& host, Done done) {
  auto& waiting = state_->waiting[host];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) {
    return;
  }
  try {
    std::thread([state = state_, host] { state->run(host); }).detach();
  } catch (const std::system_error& error) {
    asio::post(*state_->context, [state = state_, host, problem = std::string(error.what())] {
      state->finish(host, {{}, problem});
    });
  }
}

}  // namespace lb::k8s
