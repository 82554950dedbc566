// SPDX-License-Identifier: Apache-2.0
// Connections to the servers: chooses server and address, sends requests, and decides when to retry.
// http_response parses the responses; channel is the connection.
#include "k8s/client/http_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "k8s/client/channel.hpp"
#include "k8s/client/credentials.hpp"
#include "k8s/client/http_response.hpp"
#include "k8s/objects/error.hpp"

namespace lb::k8s {
namespace {

namespace asio = boost::asio;

constexpr auto wait_for_result = asio::as_tuple(asio::use_awaitable);
/// Addresses that led to a server; of a name's others that are taken for a server's, unseen.
constexpr std::size_t max_verified = 64;
constexpr std::size_t max_named = 8;

using Clock = std::chrono::steady_clock;

std::string_view method_of(const ApiRequest& request) {
  if (request.body.empty()) {
    return "GET";
  }
  return request.method == BodyMethod::post ? "POST" : "PATCH";
}

std::string_view body_type(BodyMethod method) {
  return method == BodyMethod::post ? "application/json" : "application/json-patch+json";
}

std::string host_of(const ApiServer& server) {
  return server.text().substr(server.scheme == Scheme::https ? 8 : 7);
}

}  // namespace

// ---- What all connections share. ----

struct ApiClient::Shared {
  Shared(asio::io_context& on, ApiAccess to, Warn warning, ConnectTimeouts waits, Lookup lookup)
      : context(on),
        access(std::move(to)),
        warn(std::move(warning)),
        timeouts(waits),
        resolver(on, std::move(lookup)),
        authority(access.authority),
        certificate(access.certificate),
        key(access.key),
        token(access.token) {}

  void refresh();
  void complain(const std::string& message);
  [[nodiscard]] std::vector<Address> candidates(std::size_t index, std::vector<Address> found) const;
  void connected(std::size_t index, const Address& by, const std::vector<Address>& found);
  [[nodiscard]] std::vector<ServerAddress> addresses() const;
  [[nodiscard]] std::string request_text(const ApiServer& server, const ApiRequest& request);
  void report(const ApiRequest& request, const ApiServer& server, unsigned status, Clock::time_point begin);

  asio::io_context& context;
  ApiAccess access;
  Warn warn;
  ConnectTimeouts timeouts;
  Resolver resolver;
  Credential authority;
  Credential certificate;
  Credential key;
  Credential token;
  std::shared_ptr<TlsContext> tls;
  bool tls_is_stale = true;             ///< not made of the current certificates and key
  std::uint64_t credentials = 0;        ///< increases with each change of certificates or keys
  std::size_t preferred = 0;            ///< index of the server that responded last
  std::string complaint;                ///< the last reported problem
  std::map<std::size_t, Address> last;  ///< by which a server, by index, was verified last
  std::set<ServerAddress> verified;     ///< those that led to a server, and configured ones
  std::map<std::size_t, std::vector<Address>>
      named;                               ///< by server: what its name resolved to beside one of those
  std::function<void()> notify_addresses;  ///< called when addresses() is another
  Report report_outcome;                   ///< may be empty
};

/// Who resolves the name may be anyone: a Service can claim the resolver's address. So the last address that
/// led to the server is tried, too, whatever the name resolves to, and first: each of many others may take as
/// long as a connection may (REL-162).
std::vector<Address> ApiClient::Shared::candidates(std::size_t index, std::vector<Address> found) const {
  const auto at = last.find(index);
  if (at != last.end()) {
    std::erase(found, at->second);
    found.insert(found.begin(), at->second);
  }
  return found;
}

/// `found`: what the name resolves to. The others may be further servers', or, whoever answers for the name,
/// anybody's, which no Service may have then: a few count, until the name says otherwise. None counts if the
/// name did not lead to the server. Verified ones are kept: a name may resolve to several servers in turn.
void ApiClient::Shared::connected(std::size_t index, const Address& by, const std::vector<Address>& found) {
  const auto before = addresses();
  last.insert_or_assign(index, by);
  if (verified.size() < max_verified) {
    verified.insert({by, access.servers[index].port});
  }
  if (std::ranges::find(found, by) != found.end()) {
    auto& others = named[index] = found;
    others.resize(std::min(others.size(), max_named));
  }
  if (addresses() != before && notify_addresses) {
    notify_addresses();
  }
}

std::vector<ServerAddress> ApiClient::Shared::addresses() const {
  auto all = verified;
  for (const auto& [index, others] : named) {
    for (const auto& address : others) {
      all.insert({address, access.servers[index].port});
    }
  }
  return {all.begin(), all.end()};
}

void ApiClient::Shared::complain(const std::string& message) {
  if (std::exchange(complaint, message) != message && !message.empty()) {
    warn(message);
  }
}

/// Unusable new credentials leave the last good ones in use: files are replaced one by one.
void ApiClient::Shared::refresh() {
  std::string problem;
  for (auto* each : {&authority, &certificate, &key, &token}) {
    const bool is_new = each->refresh() == Credential::Change::changed;
    tls_is_stale = tls_is_stale || (is_new && each != &token);  // a token is sent with each request
    problem = problem.empty() ? each->problem() : problem;
  }
  if (tls_is_stale && problem.empty()) {
    auto made = make_tls({authority.text(), certificate.text(), key.text()}, access.verification);
    problem = made.problem;
    if (made.context) {
      tls = std::move(made.context);
      tls_is_stale = false;
      ++credentials;
    }
  }
  if (problem.empty() && !token.text().empty() && bearer_token(token.text()).empty()) {
    problem = "the token cannot be used: it is not a line of visible characters";
  }
  complain(problem);
}

std::string ApiClient::Shared::request_text(const ApiServer& server, const ApiRequest& request) {
  auto text = fmt::format(
      "{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: sluice/{}\r\nAccept: {}\r\nAccept-Encoding: gzip\r\n",
      method_of(request), server.prefix, request.target, host_of(server), SLUICE_VERSION, request.accept);
  const auto bearer = bearer_token(token.text());
  if (!bearer.empty() && server.scheme == Scheme::https) {
    text += fmt::format("Authorization: Bearer {}\r\n", bearer);
  }
  if (!request.body.empty()) {
    text += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", body_type(request.method),
                        request.body.size());
  }
  return text + "\r\n" + request.body;
}

void ApiClient::Shared::report(const ApiRequest& request, const ApiServer& server, unsigned status,
                               Clock::time_point begin) {
  if (!report_outcome) {
    return;
  }
  report_outcome({.host = host_of(server),
                  .method = method_of(request),
                  .is_watch = request.target.find("watch=") != std::string::npos,
                  .status = status,
                  .took = Clock::now() - begin});
}

// ---- A connection. ----

namespace {

/// A name resolution that a request waits for.
struct LookupWait {
  explicit LookupWait(asio::io_context& context) : timer(context) {}

  asio::steady_timer timer;
  std::optional<LookupResult> result;
};

/// An exception of a handler ends the context's run(), as it would outside of a coroutine.
void pass_on(const std::exception_ptr& thrown) {
  if (thrown) {
    std::rethrow_exception(thrown);
  }
}

/// The result of a request.
struct Ending {
  End how = End::truncated;
  std::string problem;
  bool begun = false;  ///< a part of the response arrived
  bool has_head = false;
};

/// Forwards a response, and notifies when its head arrives.
class HeadNotifier final : public ResponseHandler {
 public:
  HeadNotifier(ResponseHandler& next, std::function<void(unsigned status)> notify)
      : next_(next), notify_(std::move(notify)) {}

  ReadControl head(const ApiHead& head) override {
    came_ = true;
    notify_(head.status);
    return next_.head(head);
  }
  ReadControl body(std::string_view bytes) override { return next_.body(bytes); }
  void end(End how, std::string detail) override { next_.end(how, std::move(detail)); }
  [[nodiscard]] bool came() const noexcept { return came_; }

 private:
  ResponseHandler& next_;
  std::function<void(unsigned status)> notify_;
  bool came_ = false;
};

}  // namespace

class ApiClient::OpenConnection final : public ApiConnection {
 public:
  explicit OpenConnection(std::shared_ptr<Shared> shared)
      : state_(std::make_shared<State>(std::move(shared))) {}
  ~OpenConnection() override { OpenConnection::cancel(); }
  OpenConnection(const OpenConnection&) = delete;
  OpenConnection& operator=(const OpenConnection&) = delete;

  void ask(const ApiRequest& request, ResponseHandler& handler) override {
    state_->handler = &handler;
    asio::co_spawn(state_->shared->context, State::run(state_, request, ++state_->turn), pass_on);
  }
  void cancel() override {
    ++state_->turn;
    state_->handler = nullptr;
    state_->drop();
  }
  [[nodiscard]] std::string server() const override {
    return state_->server ? state_->shared->access.servers[*state_->server].text() : "";
  }

 private:
  /// Shared with the coroutines, so that it lives as long as the last of them. A coroutine whose turn has
  /// ended calls no handler.
  struct State {
    explicit State(std::shared_ptr<Shared> with) : shared(std::move(with)) {}

    using Ptr = std::shared_ptr<State>;
    static asio::awaitable<void> run(Ptr self, ApiRequest request, std::uint64_t turn);
    static asio::awaitable<std::string> open(Ptr self, Connection how, std::uint64_t turn);
    static asio::awaitable<std::string> open_server(Ptr self, std::size_t index, std::uint64_t turn);
    static asio::awaitable<std::string> open_address(Ptr self, std::size_t index, Address address);
    static asio::awaitable<LookupResult> resolve(Ptr self, std::string host);
    static asio::awaitable<Ending> exchange(Ptr self, ApiRequest request, std::uint64_t turn,
                                            Clock::time_point begin);

    [[nodiscard]] bool usable(Connection how) const;
    void drop();
    [[nodiscard]] Ending ending_of(const HttpResponse& answer, HttpResponse::State state,
                                   const std::string& peer);
    void report_failure(const ApiRequest& request, const Ending& ending, Clock::time_point begin) const;
    void finish(std::uint64_t ended, const Ending& ending);

    std::shared_ptr<Shared> shared;
    std::uint64_t turn = 0;  ///< increases with each request and each cancel()
    ResponseHandler* handler = nullptr;
    ChannelPtr channel;
    std::uint64_t opened_with = 0;  ///< value of shared->credentials
    std::shared_ptr<LookupWait> lookup;
    std::optional<std::size_t> server;  ///< index of the last used server
  };

  std::shared_ptr<State> state_;
};

bool ApiClient::OpenConnection::State::usable(Connection how) const {
  return channel && is_open(*channel) && how == Connection::any && opened_with == shared->credentials;
}

void ApiClient::OpenConnection::State::drop() {
  if (channel) {
    close(*channel);
    channel.reset();
  }
  if (lookup) {
    lookup->timer.cancel();
    lookup.reset();
  }
}

void ApiClient::OpenConnection::State::finish(std::uint64_t ended, const Ending& ending) {
  if (ended != turn) {
    return;
  }
  if (ending.how != End::complete) {
    drop();
  }
  std::exchange(handler, nullptr)->end(ending.how, ending.problem);
}

/// The result of a request, from the state of its response.
Ending ApiClient::OpenConnection::State::ending_of(const HttpResponse& answer, HttpResponse::State state,
                                                   const std::string& peer) {
  switch (state) {
    case HttpResponse::State::whole:
      if (!answer.keep_alive()) {
        drop();
      }
      return {End::complete, peer, true, true};
    case HttpResponse::State::stopped:
      return {End::stopped, peer, true, true};
    default:
      return {End::truncated, fmt::format("{}: the answer {}", peer, answer.problem()), answer.begun(),
              false};
  }
}

asio::awaitable<void> ApiClient::OpenConnection::State::run(Ptr self, ApiRequest request,
                                                            std::uint64_t turn) {
  co_await asio::post(asio::use_awaitable);  // ask() has returned before the handler is called
  if (turn != self->turn) {
    co_return;
  }
  self->shared->refresh();
  const auto begin = Clock::now();
  Ending ending;
  if (self->usable(request.connection)) {
    ending = co_await exchange(self, request, turn, begin);
    if (ending.begun || ending.how != End::truncated || turn != self->turn) {
      if (turn == self->turn) {
        self->report_failure(request, ending, begin);
      }
      self->finish(turn, ending);
      co_return;
    }
    // The server had closed the idle connection: retry on a new one.
  }
  ending.problem = co_await open(self, request.connection, turn);
  if (turn == self->turn && self->channel) {
    ending = co_await exchange(self, request, turn, begin);
  } else {
    ending.how = End::unreachable;
  }
  if (turn == self->turn) {
    self->report_failure(request, ending, begin);
  }
  self->finish(turn, ending);
}

void ApiClient::OpenConnection::State::report_failure(const ApiRequest& request, const Ending& ending,
                                                      Clock::time_point begin) const {
  if (ending.has_head || !server) {
    return;
  }
  shared->report(request, shared->access.servers[*server], 0, begin);
}

/// Opens a connection, or returns a message for each server. With Connection::fresh, the server of the old
/// connection is tried last.
asio::awaitable<std::string> ApiClient::OpenConnection::State::open(Ptr self, Connection how,
                                                                    std::uint64_t turn) {
  self->drop();
  const auto count = self->shared->access.servers.size();
  const bool other = how == Connection::fresh && self->server == self->shared->preferred;
  const auto first = self->shared->preferred + (other ? 1 : 0);
  std::string problems;
  for (std::size_t i = 0; i < count && turn == self->turn; ++i) {
    const auto index = (first + i) % count;
    self->server = index;
    const auto problem = co_await open_server(self, index, turn);
    if (problem.empty()) {
      self->shared->preferred = index;
      co_return std::string();
    }
    problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ",
                            self->shared->access.servers[index].text(), problem);
  }
  co_return problems;
}

asio::awaitable<std::string> ApiClient::OpenConnection::State::open_server(Ptr self, std::size_t index,
                                                                           std::uint64_t turn) {
  const auto& server = self->shared->access.servers[index];
  const auto result = co_await resolve(self, server.host);
  const auto candidates = self->shared->candidates(index, result.addresses);
  std::string problem = result.problem.empty() ? "its name has no address" : result.problem;
  for (const auto& address : candidates) {
    if (turn != self->turn) {
      break;
    }
    if (server.scheme == Scheme::http && !address.loopback()) {
      problem = "is neither encrypted nor on this machine";
      continue;
    }
    problem = co_await open_address(self, index, address);
    if (problem.empty()) {
      self->shared->connected(index, address, result.addresses);
      break;
    }
    if (turn == self->turn) {
      self->drop();
    }
  }
  co_return problem;
}

/// Names are resolved again for each connection: their addresses change (REL-77).
asio::awaitable<LookupResult> ApiClient::OpenConnection::State::resolve(Ptr self, std::string host) {
  if (const auto address = Address::parse(host)) {
    co_return LookupResult{{*address}, ""};
  }
  const auto wait = std::make_shared<LookupWait>(self->shared->context);
  self->lookup = wait;
  wait->timer.expires_after(self->shared->timeouts.resolve);
  self->shared->resolver.resolve(host, [wait](const LookupResult& result) {
    wait->result = result;
    wait->timer.cancel();
  });
  co_await wait->timer.async_wait(wait_for_result);
  if (self->lookup == wait) {
    self->lookup.reset();
  }
  co_return wait->result.value_or(LookupResult{{}, "its name was not resolved in time"});
}

/// Stores the channel before connecting, so that cancel() can close it.
asio::awaitable<std::string> ApiClient::OpenConnection::State::open_address(Ptr self, std::size_t index,
                                                                            Address address) {
  const auto shared = self->shared;
  const auto& server = shared->access.servers[index];
  const auto channel = make_channel(shared->context);
  self->channel = channel;
  self->opened_with = shared->credentials;
  auto problem = co_await connect(channel, address, server.port, shared->timeouts.connect);
  if (!problem.empty() || server.scheme == Scheme::http) {
    co_return problem;
  }
  auto name = shared->access.server_name.empty() ? server.certificate() : shared->access.server_name;
  auto context = shared->tls;
  problem = co_await tls_handshake(channel, std::move(context), std::move(name), shared->access.verification,
                                   shared->timeouts.handshake);
  co_return problem;
}

/// Sends one request and receives its response on the open channel.
asio::awaitable<Ending> ApiClient::OpenConnection::State::exchange(Ptr self, ApiRequest request,
                                                                   std::uint64_t turn,
                                                                   Clock::time_point begin) {
  const auto channel = self->channel;
  const auto& server = self->shared->access.servers[*self->server];
  const auto peer = server.text();
  auto text = self->shared->request_text(server, request);
  const auto failure = co_await send(channel, std::move(text));
  if (failure || turn != self->turn) {
    co_return Ending{End::truncated, fmt::format("{}: {}", peer, failure.message())};
  }
  HeadNotifier handler(*self->handler,
                       [&](unsigned status) { self->shared->report(request, server, status, begin); });
  HttpResponse answer(handler);
  auto state = HttpResponse::State::open;
  while (state == HttpResponse::State::open) {
    const auto received = co_await receive(channel);
    if (turn != self->turn) {
      co_return Ending{};
    }
    if (received.error && received.error != asio::error::eof) {
      co_return Ending{End::truncated, fmt::format("{}: {}", peer, received.error.message()), answer.begun(),
                       handler.came()};
    }
    state = received.error ? answer.close() : answer.feed(received.bytes);
  }
  auto ending = self->ending_of(answer, state, peer);
  ending.has_head = handler.came();
  co_return ending;
}

ApiClient::ApiClient(asio::io_context& context, ApiAccess access, Warn warn, ConnectTimeouts timeouts,
                     Lookup lookup) {
  check_access(access);
  std::string problem;
  shared_ = std::make_shared<Shared>(
      context, std::move(access), [&problem](std::string message) { problem = std::move(message); }, timeouts,
      std::move(lookup));
  shared_->refresh();
  shared_->warn = std::move(warn);
  if (!problem.empty()) {
    throw StartError(
        fmt::format("cannot set up TLS to {}: {}", shared_->access.servers.front().text(), problem));
  }
  for (const auto& server : shared_->access.servers) {
    if (const auto address = Address::parse(server.host)) {
      shared_->verified.insert({*address, server.port});
    }
  }
}

ApiClient::~ApiClient() = default;

std::vector<ServerAddress> ApiClient::addresses() const { return shared_->addresses(); }

void ApiClient::on_addresses(std::function<void()> notify) { shared_->notify_addresses = std::move(notify); }

void ApiClient::on_outcome(Report report) { shared_->report_outcome = std::move(report); }

std::unique_ptr<ApiConnection> ApiClient::connection() { return std::make_unique<OpenConnection>(shared_); }

}  // namespace lb::k8s
