// One connection to a server, with or without TLS: connect, send and receive. OpenSSL stays in channel.cpp.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "k8s/client/access.hpp"
#include "k8s/objects/model.hpp"

namespace lb::k8s {

/// What handshakes need of certificates and keys.
struct TlsContext;

/// What makes a TLS context; PEM.
struct Pem {
  std::string authority;
  std::string certificate;
  std::string key;
};

struct Tls {
  std::shared_ptr<TlsContext> context;  ///< null: `problem` says why
  std::string problem;
};

[[nodiscard]] Tls make_tls(const Pem& pem, Verification verification);

struct Channel;
using ChannelPtr = std::shared_ptr<Channel>;

[[nodiscard]] ChannelPtr make_channel(boost::asio::io_context& context);
[[nodiscard]] bool is_open(const Channel& channel);
/// Whatever is under way on it fails.
void close(Channel& channel);

/// Empty: done; else why not.
[[nodiscard]] boost::asio::awaitable<std::string> connect(ChannelPtr channel, Address address,
                                                          std::uint16_t port, std::chrono::milliseconds time);
/// The same for TLS on it, with a server whose certificate has that name or address.
[[nodiscard]] boost::asio::awaitable<std::string> tls_handshake(ChannelPtr channel,
                                                                std::shared_ptr<TlsContext> context,
                                                                std::string name, Verification verification,
                                                                std::chrono::milliseconds time);

[[nodiscard]] boost::asio::awaitable<boost::system::error_code> send(ChannelPtr channel, std::string text);

struct Received {
  boost::system::error_code error;
  std::string_view bytes;  ///< in the connection's buffer, until the next call
};

[[nodiscard]] boost::asio::awaitable<Received> receive(ChannelPtr channel);

}  // namespace lb::k8s
