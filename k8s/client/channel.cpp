// SPDX-License-Identifier: Apache-2.0
// TCP connections by Asio, TLS by OpenSSL: the only file that includes OpenSSL.
#include "k8s/client/channel.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace lb::k8s {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

constexpr auto wait_for_result = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t read_bytes = 32768;

/// Keepalive detects a dead peer after this, even if we send nothing.
constexpr int keepalive_idle_seconds = 15;
constexpr int keepalive_interval_seconds = 5;
constexpr int keepalive_probes = 3;
constexpr unsigned unacknowledged_milliseconds = 20'000;

}  // namespace

struct TlsContext {
  ssl::context context{ssl::context::tls_client};
};

struct Channel : std::enable_shared_from_this<Channel> {
  explicit Channel(asio::io_context& context) : socket(context), timer(context), buffer(read_bytes) {}

  void close() {
    error_code ignored;
    socket.close(ignored);
    timer.cancel();
  }

  tcp::socket socket;
  std::optional<ssl::stream<tcp::socket&>> tls;
  asio::steady_timer timer;
  std::vector<char> buffer;
  unsigned limits = 0;   ///< number of the newest Limit
  bool expired = false;  ///< a Limit closed the channel
};

namespace {

// ---- TLS. ----

Tls no_tls(std::string_view what, const error_code& error) {
  return {nullptr, fmt::format("{} cannot be used: {}", what, error.message())};
}

error_code trust(ssl::context& context, const std::string& authority) {
  error_code error;
  if (authority.empty()) {
    context.set_default_verify_paths(error);
  } else {
    context.add_certificate_authority(asio::buffer(authority), error);
  }
  return error;
}

/// Requires that the certificate has this name or address; false if OpenSSL rejects the name.
bool expect_name(SSL* handle, const std::string& name) {
  X509_VERIFY_PARAM* parameters = SSL_get0_param(handle);
  if (const auto address = Address::parse(name)) {
    return X509_VERIFY_PARAM_set1_ip_asc(parameters, address->text().c_str()) == 1;
  }
  X509_VERIFY_PARAM_set_hostflags(parameters,
                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1 &&
         SSL_set_tlsext_host_name(handle, name.c_str()) == 1;
}

std::string handshake_problem(SSL* handle, const error_code& error) {
  const long verdict = SSL_get_verify_result(handle);
  return verdict == X509_V_OK
             ? fmt::format("TLS: {}", error.message())
             : fmt::format("its certificate is not trusted: {}", X509_verify_cert_error_string(verdict));
}

// ---- Sockets. ----

void set_option(tcp::socket& socket, int level, int name, unsigned value) {
  // If the kernel lacks the option, the caller's deadlines still apply.
  (void)::setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
}

/// Half-open connections are closed (REL-33), and small requests are sent at once.
void set_options(tcp::socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, keepalive_probes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, unacknowledged_milliseconds);
}

/// Closes a connection unless destroyed in time.
class Limit {
 public:
  Limit(const ChannelPtr& channel, milliseconds time) : channel_(channel) {
    const auto number = ++channel->limits;
    channel->timer.expires_after(time);
    channel->timer.async_wait([weak = channel->weak_from_this(), number](const error_code& error) {
      const auto self = weak.lock();
      if (!error && self && self->limits == number) {
        self->expired = true;
        self->close();
      }
    });
  }
  ~Limit() {
    ++channel_->limits;
    channel_->timer.cancel();
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  ChannelPtr channel_;
};

tcp::endpoint endpoint_of(const Address& address, std::uint16_t port) {
  if (address.family() == Family::ipv4) {
    return {
        asio::ip::address_v4({address.bytes[12], address.bytes[13], address.bytes[14], address.bytes[15]}),
        port};
  }
  return {asio::ip::address_v6(address.bytes), port};
}

}  // namespace

Tls make_tls(const Pem& pem, Verification verification) {
  auto made = std::make_shared<TlsContext>();
  auto& context = made->context;
  SSL_CTX* raw = context.native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  // Like Go: every certificate of the bundle is trusted, also one that is not a root.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(raw), X509_V_FLAG_PARTIAL_CHAIN);
  constexpr std::array<unsigned char, 9> protocols = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_CTX_set_alpn_protos(raw, protocols.data(), protocols.size());
  if (verification == Verification::full) {
    if (const auto error = trust(context, pem.authority)) {
      return no_tls("the bundle of certificate authorities", error);
    }
  }
  if (!pem.certificate.empty()) {
    error_code error;
    context.use_certificate_chain(asio::buffer(pem.certificate), error);
    if (error) {
      return no_tls("the client certificate", error);
    }
    context.use_private_key(asio::buffer(pem.key), ssl::context::pem, error);
    if (error) {
      return no_tls("the client key", error);
    }
  }
  return {std::move(made), ""};
}

ChannelPtr make_channel(asio::io_context& context) { return std::make_shared<Channel>(context); }

bool is_open(const Channel& channel) { return channel.socket.is_open(); }

void close(Channel& channel) { channel.close(); }

asio::awaitable<error_code> send(ChannelPtr channel, std::string text) {
  if (channel->tls) {
    const auto [error, size] = co_await asio::async_write(*channel->tls, asio::buffer(text), wait_for_result);
    co_return error;
  }
  const auto [error, size] = co_await asio::async_write(channel->socket, asio::buffer(text), wait_for_result);
  co_return error;
}

asio::awaitable<Received> receive(ChannelPtr channel) {
  const auto buffer = asio::buffer(channel->buffer);
  if (channel->tls) {
    const auto [error, size] = co_await channel->tls->async_read_some(buffer, wait_for_result);
    co_return Received{error, {channel->buffer.data(), size}};
  }
  const auto [error, size] = co_await channel->socket.async_read_some(buffer, wait_for_result);
  co_return Received{error, {channel->buffer.data(), size}};
}

asio::awaitable<std::string> connect(ChannelPtr channel, Address address, std::uint16_t port,
                                     milliseconds time) {
  const auto endpoint = endpoint_of(address, port);
  error_code error;
  channel->socket.open(endpoint.protocol(), error);
  if (error) {
    co_return error.message();
  }
  set_options(channel->socket);
  const Limit limit(channel, time);
  const auto [failure] = co_await channel->socket.async_connect(endpoint, wait_for_result);
  co_return failure ? channel->expired ? "no connection in time" : failure.message() : "";
}

asio::awaitable<std::string> tls_handshake(ChannelPtr channel, std::shared_ptr<TlsContext> context,
                                           std::string name, Verification verification, milliseconds time) {
  channel->tls.emplace(channel->socket, context->context);
  SSL* handle = channel->tls->native_handle();
  SSL_set_verify(handle, verification == Verification::full ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!expect_name(handle, name)) {
    co_return fmt::format("'{}' is not a name that a certificate can have", name);
  }
  const Limit limit(channel, time);
  const auto [error] = co_await channel->tls->async_handshake(ssl::stream_base::client, wait_for_result);
  co_return error ? channel->expired ? "no TLS in time" : handshake_problem(handle, error) : "";
}

}  // namespace lb::k8s
