// SPDX-License-Identifier: Apache-2.0
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

/// Certificates and keys for handshakes.
struct TlsContext;

/// Input of make_tls(), in PEM.
struct Pem {
  std::string authority;
  std::string certificate;
  std::string key;
};

struct Tls {
  std::shared_ptr<TlsContext> context;  ///< null: see `problem`
  std::string problem;
};

[[nodiscard]] Tls make_tls(const Pem& pem, Verification verification);

struct Channel;
using ChannelPtr = std::shared_ptr<Channel>;

[[nodiscard]] ChannelPtr make_channel(boost::asio::io_context& context);
[[nodiscard]] bool is_open(const Channel& channel);
/// Closes the connection; pending operations fail.
void close(Channel& channel);

/// Connects. Returns an empty string, or the error message.
[[nodiscard]] boost::asio::awaitable<std::string> connect(ChannelPtr channel, Address address,
                                                          std::uint16_t port, std::chrono::milliseconds time);
/// Performs the TLS handshake with a server whose certificate has that name or address. Returns like
/// connect().
[[nodiscard]] boost::asio::awaitable<std::string> tls_handshake(ChannelPtr channel,
                                                                std::shared_ptr<TlsContext> context,
                                                                std::string name, Verification verification,
                                                                std::chrono::milliseconds time);

[[nodiscard]] boost::asio::awaitable<boost::system::error_code> send(ChannelPtr channel, std::string text);

struct Received {
  boost::system::error_code error;
  std::string_view bytes;  ///< view of the channel's buffer, valid until the next call
};

[[nodiscard]] boost::asio::awaitable<Received> receive(ChannelPtr channel);

}  // namespace lb::k8s
