// SPDX-License-Identifier: Apache-2.0
// A server of coroutines on the test's own context; certificates by OpenSSL.
#include "server.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>

namespace lb::k8s::testing {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using tcp = asio::ip::tcp;
constexpr auto wait_for_result = asio::as_tuple(asio::use_awaitable);

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* pointer) const { Free(pointer); }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;

void require(bool good, const char* what) {
  if (!good) {
    throw std::runtime_error(what);
  }
}

template <typename Write>
std::string pem(Write write) {
  BIO* memory = BIO_new(BIO_s_mem());
  require(write(memory) == 1, "PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(memory);
  return text;
}

std::string certificate_pem(X509* certificate) {
  return pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

std::string key_pem(EVP_PKEY* key) {
  return pem(
      [&](BIO* out) { return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

void extend(X509* certificate, int name, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, name, value.c_str());
  require(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, "extension");
  X509_EXTENSION_free(extension);
}

Certificate begin_certificate(const std::string& common_name, EVP_PKEY* key) {
  static long serial = 1;
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86400);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

struct Authority::State {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate;
};

Authority::Authority(const std::string& name) : state_(std::make_unique<State>()) {
  state_->certificate = begin_certificate(name, state_->key.get());
  auto* certificate = state_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
  extend(certificate, NID_key_usage, "critical,keyCertSign");
  require(X509_sign(certificate, state_->key.get(), EVP_sha256()) > 0, "sign");
}

Authority::~Authority() = default;

std::string Authority::certificate() const { return certificate_pem(state_->certificate.get()); }

Identity Authority::issue(const std::string& common_name, const std::string& names, long seconds) const {
  const Key key(EVP_EC_gen("P-256"));
  const auto certificate = begin_certificate(common_name, key.get());
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds - 3600);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(state_->certificate.get()));
  extend(certificate.get(), NID_basic_constraints, "critical,CA:FALSE");
  if (!names.empty()) {
    extend(certificate.get(), NID_subject_alt_name, names);
  }
  require(X509_sign(certificate.get(), state_->key.get(), EVP_sha256()) > 0, "sign");
  return {certificate_pem(certificate.get()), key_pem(key.get())};
}

// ---- The server. ----

namespace {

struct Session {
  explicit Session(tcp::socket from) : socket(std::move(from)) {}

  void close() {
    boost::system::error_code ignored;
    socket.close(ignored);
  }

  tcp::socket socket;
  std::optional<ssl::stream<tcp::socket&>> tls;
  std::string buffer;
  std::size_t number = 0;
  bool silent = false;
};

using SessionPtr = std::shared_ptr<Session>;

asio::awaitable<bool> send(SessionPtr session, std::string bytes) {
  boost::system::error_code error;
  if (session->tls) {
    std::tie(error, std::ignore) =
        co_await asio::async_write(*session->tls, asio::buffer(bytes), wait_for_result);
  } else {
    std::tie(error, std::ignore) =
        co_await asio::async_write(session->socket, asio::buffer(bytes), wait_for_result);
  }
  co_return !error;
}

/// Reads a request's head; returns "" if the connection ended first.
asio::awaitable<std::string> receive(SessionPtr session) {
  boost::system::error_code error;
  std::size_t size = 0;
  auto buffer = asio::dynamic_buffer(session->buffer);
  if (session->tls) {
    std::tie(error, size) =
        co_await asio::async_read_until(*session->tls, buffer, "\r\n\r\n", wait_for_result);
  } else {
    std::tie(error, size) =
        co_await asio::async_read_until(session->socket, buffer, "\r\n\r\n", wait_for_result);
  }
  auto head = error ? std::string() : session->buffer.substr(0, size);
  session->buffer.erase(0, head.size());
  co_return head;
}

std::string common_name(SSL* handle) {
  const Certificate certificate(SSL_get1_peer_certificate(handle));
  std::string name(256, '\0');
  const int size = certificate
                       ? X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                                                   name.data(), static_cast<int>(name.size()))
                       : 0;
  name.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return name;
}

}  // namespace

struct Server::State {
  State(asio::io_context& on, ServerOptions with, Handler handle)
      : context(on), options(std::move(with)), handler(std::move(handle)), acceptor(on) {
    const tcp::endpoint endpoint(asio::ip::make_address(options.address), 0);
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    port = acceptor.local_endpoint().port();
    if (options.tls) {
      tls.emplace(ssl::context::tls_server);
      tls->use_certificate_chain(asio::buffer(options.tls->certificate));
      tls->use_private_key(asio::buffer(options.tls->key), ssl::context::pem);
      if (!options.client_authority.empty()) {
        tls->add_certificate_authority(asio::buffer(options.client_authority));
        tls->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
      }
    }
  }

  using Ptr = std::shared_ptr<State>;
  static asio::awaitable<void> accept(Ptr self);
  static asio::awaitable<void> serve(Ptr self, SessionPtr session);
  static asio::awaitable<bool> reply(Ptr self, SessionPtr session, Reply reply);

  asio::io_context& context;
  ServerOptions options;
  Handler handler;
  tcp::acceptor acceptor;
  unsigned short port = 0;
  std::optional<ssl::context> tls;
  std::vector<SessionPtr> sessions;
  std::vector<Asked> asked;
  std::size_t connections = 0;
};

asio::awaitable<void> Server::State::accept(Ptr self) {
  while (self->acceptor.is_open()) {
    auto [error, socket] = co_await self->acceptor.async_accept(wait_for_result);
    if (error) {
      break;
    }
    socket.set_option(tcp::no_delay(true));
    const auto session = std::make_shared<Session>(std::move(socket));
    session->number = ++self->connections;
    self->sessions.push_back(session);
    asio::co_spawn(self->context, serve(self, session), asio::detached);
  }
}

asio::awaitable<void> Server::State::serve(Ptr self, SessionPtr session) {
  std::string client;
  if (self->tls) {
    session->tls.emplace(session->socket, *self->tls);
    const auto [error] = co_await session->tls->async_handshake(ssl::stream_base::server, wait_for_result);
    if (error) {
      session->close();
      co_return;
    }
    client = common_name(session->tls->native_handle());
  }
  bool more = true;
  while (more) {
    const auto head = co_await receive(session);
    if (head.empty()) {
      break;
    }
    const auto begin = head.find(' ') + 1;
    self->asked.push_back({head.substr(begin, head.find(' ', begin) - begin), head, session->number, client});
    auto next = self->handler(self->asked.back());
    more = co_await reply(self, session, std::move(next));
  }
  if (!session->silent) {
    session->close();
  }
}

asio::awaitable<bool> Server::State::reply([[maybe_unused]] Ptr self, SessionPtr session, Reply reply) {
  for (auto& piece : reply.pieces) {
    const bool sent = co_await send(session, std::move(piece));
    if (!sent) {
      co_return false;
    }
  }
  session->silent = reply.after == After::silence;
  if (reply.after == After::reset) {
    session->socket.set_option(asio::socket_base::linger(true, 0));
  }
  co_return reply.after == After::next_request;
}

Server::Server(asio::io_context& context, ServerOptions options, Handler handler)
    : state_(std::make_shared<State>(context, std::move(options), std::move(handler))) {
  asio::co_spawn(context, State::accept(state_), asio::detached);
}

Server::~Server() { stop(); }

unsigned short Server::port() const { return state_->port; }
const std::vector<Asked>& Server::asked() const { return state_->asked; }
std::size_t Server::connections() const { return state_->connections; }

void Server::stop() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  cut();
}

void Server::cut() {
  for (const auto& session : std::exchange(state_->sessions, {})) {
    session->close();
  }
}

void Server::push(std::string bytes) {
  for (const auto& session : state_->sessions) {
    if (session->silent && session->socket.is_open()) {
      asio::co_spawn(state_->context, send(session, bytes), [](const std::exception_ptr&, bool) {});
    }
  }
}

std::string answer(int status, const std::string& body, const std::string& fields) {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                     status, body.size(), fields, body);
}

std::string stream_head(const std::string& type) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n\r\n", type);
}

std::string chunk(const std::string& bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

bool run_until(asio::io_context& context, const std::function<bool()>& done, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!done()) {
    context.restart();
    if (std::chrono::steady_clock::now() >= end || context.run_one_until(end) == 0) {
      return done();
    }
  }
  return true;
}

}  // namespace lb::k8s::testing
