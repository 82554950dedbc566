// The client against a server that misbehaves: connections, TLS, rotation, fail-over.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "k8s/error.hpp"
#include "k8s/http_client.hpp"
#include "k8s_server.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

namespace asio = boost::asio;

class Reader final : public AnswerReader {
 public:
  Flow head(const ApiHead& head) override {
    status = head.status;
    return Flow::go_on;
  }
  Flow body(std::string_view bytes) override {
    content += bytes;
    return content.size() < most ? Flow::go_on : Flow::stop;
  }
  void end(End how, std::string why) override {
    REQUIRE_FALSE(ended);
    ended = how;
    detail = std::move(why);
  }

  unsigned status = 0;
  std::string content;
  std::size_t most = std::string::npos;
  std::optional<End> ended;
  std::string detail;
};

struct Files {
  Files() {
    std::string name = std::filesystem::temp_directory_path() / "sluice-client-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Files() { std::filesystem::remove_all(path); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  /// As a Secret's volume does: the old text or the new one, never half.
  Material write(const std::string& name, const std::string& text) const {
    std::ofstream(path / ".new", std::ios::binary) << text;
    std::filesystem::rename(path / ".new", path / name);
    return {"", (path / name).string()};
  }

  std::filesystem::path path;
};

/// A client and what it says.
struct Lab {
  asio::io_context context{1};
  std::vector<std::string> warnings;
  std::unique_ptr<ApiClient> client;
  std::unique_ptr<ApiLine> line;
  ConnectPatience patience{5s, 5s, 5s};
  Lookup lookup = [](const std::string&) { return Looked{{*Address::parse("127.0.0.1")}, ""}; };

  void open(ApiAccess access) {
    client = std::make_unique<ApiClient>(
        context, std::move(access), [this](std::string text) { warnings.push_back(std::move(text)); },
        patience, lookup);
    line = client->line();
  }
  Reader ask(Connection how = Connection::any, const std::string& target = "/x") {
    Reader reader;
    line->ask({target, "application/json", how}, reader);
    CHECK_FALSE(reader.ended);
    REQUIRE(run_until(context, [&] { return reader.ended.has_value(); }));
    return reader;
  }
};

ApiAccess access_to(const std::vector<std::string>& urls) {
  ApiAccess access;
  for (const auto& url : urls) {
    access.servers.push_back(parse_api_server(url));
  }
  return access;
}

std::string url(const Server& server, const std::string& scheme = "http",
                const std::string& host = "127.0.0.1") {
  return fmt::format("{}://{}:{}", scheme, host, server.port());
}

Server::Handler hello() {
  return [](const Asked&) { return Reply{{answer(200, "hello")}}; };
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("k8s client: requests share a connection, and say what they must") {
  Lab lab;
  Server server(lab.context, {}, hello());
  lab.open(access_to({url(server) + "/prefix"}));
  for (int i = 0; i < 3; ++i) {
    const auto reader = lab.ask();
    CHECK(reader.ended == End::whole);
    CHECK(reader.status == 200);
    CHECK(reader.content == "hello");
  }
  CHECK(server.connections() == 1);
  CHECK(lab.line->server() == url(server));
  CHECK(server.asked()[0].target == "/prefix/x");
  const auto& head = server.asked()[0].head;
  CHECK_THAT(head, ContainsSubstring(fmt::format("\r\nHost: 127.0.0.1:{}\r\n", server.port())));
  CHECK_THAT(head, ContainsSubstring("\r\nAccept: application/json\r\n"));
  CHECK_THAT(head, ContainsSubstring("\r\nAccept-Encoding: gzip\r\n"));
  CHECK_FALSE(has(head, "Authorization"));
  CHECK(lab.ask(Connection::fresh).ended == End::whole);
  CHECK(server.connections() == 2);
}

TEST_CASE("REL-33: cut, truncated, reset and interrupted answers end as such") {
  struct Row {
    const char* name;
    Reply reply;
    End how;
    std::string content;
  };
  std::vector<std::string> bytes;
  for (const char c : stream_head() + chunk("hello") + last_chunk) {
    bytes.emplace_back(1, c);
  }
  const Row rows[] = {
      {"byte by byte", {bytes}, End::whole, "hello"},
      {"no answer", {{}, After::close}, End::cut, ""},
      {"half a head", {{"HTTP/1.1 200 O"}, After::close}, End::cut, ""},
      {"cut in a chunk", {{stream_head() + "a\r\nhel"}, After::close}, End::cut, "hel"},
      {"cut between chunks", {{stream_head(), chunk("hello")}, After::close}, End::cut, "hello"},
      {"reset", {{stream_head(), chunk("hello")}, After::reset}, End::cut, ""},
      {"closed by its end",
       {{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"}, After::close},
       End::whole,
       "hello"},
      {"no HTTP", {{"SSH-2.0-x\r\n\r\n"}, After::close}, End::cut, ""},
      {"no end", {{stream_head() + chunk("hello")}, After::silence}, End::stopped, "hello"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Lab lab;
    Server server(lab.context, {}, [&](const Asked&) { return row.reply; });
    lab.open(access_to({url(server)}));
    Reader reader;
    reader.most = row.how == End::stopped ? 5 : std::string::npos;
    lab.line->ask({"/", "a/b"}, reader);
    REQUIRE(run_until(lab.context, [&] { return reader.ended.has_value(); }));
    CHECK(*reader.ended == row.how);
    if (row.reply.after != After::reset) {
      CHECK(reader.content == row.content);
    }
    CHECK_THAT(reader.detail, ContainsSubstring(url(server)));
    // And it can go on.
    Reader next;
    lab.line->ask({"/", "a/b"}, next);
    REQUIRE(run_until(lab.context, [&] { return next.ended || next.content == row.content; }));
    lab.line->hang_up();
  }
}

TEST_CASE("k8s client: a connection that was closed while it was idle is opened again unasked") {
  Lab lab;
  Server server(lab.context, {}, hello());
  lab.open(access_to({url(server)}));
  CHECK(lab.ask().ended == End::whole);
  server.cut();
  CHECK(lab.ask().ended == End::whole);
  CHECK(server.connections() == 2);
}

TEST_CASE("k8s client: nothing is told after hang_up, and the line can be used again or dropped") {
  Lab lab;
  Server server(lab.context, {}, [](const Asked& asked) {
    return asked.target == "/silent" ? Reply{{stream_head()}, After::silence} : Reply{{answer(200, "hello")}};
  });
  lab.open(access_to({url(server)}));
  Reader silent;
  lab.line->ask({"/silent", "a/b"}, silent);
  REQUIRE(run_until(lab.context, [&] { return silent.status == 200; }));
  lab.line->hang_up();
  CHECK(lab.ask().content == "hello");
  server.push(chunk("late"));
  CHECK(lab.ask().content == "hello");
  CHECK_FALSE(silent.ended);
  CHECK(silent.content.empty());
  Reader at_once;
  lab.line->ask({"/", "a/b"}, at_once);
  lab.line->hang_up();
  lab.line.reset();
  lab.client.reset();
  lab.context.run_for(20ms);
  CHECK_FALSE(at_once.ended);
}

TEST_CASE("REL-87: redirects are not followed") {
  Lab lab;
  Server elsewhere(lab.context, {}, hello());
  Server server(lab.context, {}, [&](const Asked&) {
    return Reply{{answer(302, "", fmt::format("Location: {}/\r\n", url(elsewhere)))}};
  });
  lab.open(access_to({url(server)}));
  const auto reader = lab.ask();
  CHECK(reader.status == 302);
  CHECK(reader.ended == End::whole);
  CHECK(elsewhere.connections() == 0);
  CHECK(server.asked().size() == 1);
}

TEST_CASE("REL-87: no token in the clear, and nothing in the clear to another machine") {
  Lab lab;
  auto access = access_to({"http://127.0.0.1:1"});
  access.token.text = "secret";
  CHECK_THROWS_MATCHES(lab.open(access), StartError, MessageMatches(ContainsSubstring("in the clear")));
  CHECK_THROWS_AS(lab.open(access_to({"http://192.0.2.1:1"})), StartError);
  lab.lookup = [](const std::string&) { return Looked{{*Address::parse("192.0.2.1")}, ""}; };
  lab.open(access_to({"http://localhost:1"}));  // whatever somebody's resolver makes of it
  const auto reader = lab.ask();
  CHECK(reader.ended == End::unreachable);
  CHECK_THAT(reader.detail, ContainsSubstring("neither encrypted nor on this machine"));
}

TEST_CASE("k8s client: the server's certificate must be for its name or address, and from whom we trust") {
  const Authority ours("ours");
  const Authority others("others");
  struct Row {
    const char* name;
    const Authority* issuer;
    const char* common_name;
    const char* names;
    const char* host;
    const char* server_name;
    const char* why_not;  ///< empty: accepted
  };
  const Row rows[] = {
      {"an address", &ours, "x", "IP:127.0.0.1", "127.0.0.1", "", ""},
      {"an IPv6 address", &ours, "x", "IP:::1", "[::1]", "", ""},
      {"a name", &ours, "x", "DNS:api.test", "api.test", "", ""},
      {"a wildcard", &ours, "x", "DNS:*.api.test", "one.api.test", "", ""},
      {"the name that is given instead", &ours, "x", "DNS:kubernetes", "127.0.0.1", "kubernetes", ""},
      {"another address", &ours, "x", "IP:127.0.0.2", "127.0.0.1", "", "IP address mismatch"},
      {"another name", &ours, "x", "DNS:api.test", "evil.test", "", "hostname mismatch"},
      {"a wildcard too high", &ours, "x", "DNS:*.test", "one.api.test", "", "hostname mismatch"},
      {"a name where an address is due", &ours, "127.0.0.1", "DNS:127.0.0.1", "127.0.0.1", "",
       "IP address mismatch"},
      {"a common name only", &ours, "api.test", "", "api.test", "", "hostname mismatch"},
      {"another authority", &others, "x", "IP:127.0.0.1", "127.0.0.1", "", "unable to get local issuer"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Lab lab;
    const bool six = std::string(row.host).starts_with('[');
    Server server(lab.context, {six ? "::1" : "127.0.0.1", row.issuer->issue(row.common_name, row.names), ""},
                  hello());
    auto access = access_to({url(server, "https", row.host)});
    access.authority.text = ours.certificate();
    access.server_name = row.server_name;
    access.token.text = "secret\n";
    lab.open(access);
    const auto reader = lab.ask();
    if (std::string(row.why_not).empty()) {
      CHECK(reader.ended == End::whole);
      CHECK(reader.content == "hello");
      CHECK_THAT(server.asked().at(0).head, ContainsSubstring("\r\nAuthorization: Bearer secret\r\n"));
    } else {
      CHECK(reader.ended == End::unreachable);
      CHECK_THAT(reader.detail, ContainsSubstring(row.why_not));
      CHECK(server.asked().empty());
      access.verification = Verification::none;
      lab.open(access);
      CHECK(lab.ask().ended == End::whole);
    }
  }
}

TEST_CASE("REL-34: a token that rotates is used at once, on the same connection") {
  const Authority authority("ours");
  const Files files;
  Lab lab;
  Server server(lab.context, {"127.0.0.1", authority.issue("x", "IP:127.0.0.1"), ""}, hello());
  auto access = access_to({url(server, "https")});
  access.authority.text = authority.certificate();
  access.token = files.write("token", "one\n");
  lab.open(access);
  lab.ask();
  files.write("token", "two");
  lab.ask();
  files.write("token", "three\r\nX-Admin: yes");
  lab.ask();
  std::filesystem::remove(files.path / "token");
  lab.ask();
  REQUIRE(server.asked().size() == 4);
  CHECK_THAT(server.asked()[0].head, ContainsSubstring("Bearer one\r\n"));
  CHECK_THAT(server.asked()[1].head, ContainsSubstring("Bearer two\r\n"));
  CHECK_FALSE(has(server.asked()[2].head, "X-Admin"));
  CHECK(server.connections() == 1);
  REQUIRE(lab.warnings.size() == 2);
  CHECK_THAT(lab.warnings[0], ContainsSubstring("the token cannot be used"));
  CHECK_THAT(lab.warnings[1], ContainsSubstring("cannot read"));
}

TEST_CASE("REL-34: client certificates and authorities that rotate are used at once, on a new connection") {
  const Authority old_authority("old");
  const Authority new_authority("new");
  const Files files;
  Lab lab;
  Server server(lab.context,
                {"127.0.0.1", old_authority.issue("x", "IP:127.0.0.1"), old_authority.certificate()},
                hello());
  const auto first = old_authority.issue("first", "");
  const auto second = old_authority.issue("second", "");
  auto access = access_to({url(server, "https")});
  access.authority = files.write("ca", old_authority.certificate());
  access.certificate = files.write("certificate", first.certificate);
  access.key = files.write("key", first.key);
  lab.open(access);
  lab.ask();
  lab.ask();
  CHECK(server.connections() == 1);
  files.write("certificate", second.certificate);
  lab.ask();  // half rotated: the key does not fit
  CHECK(server.connections() == 1);
  REQUIRE(lab.warnings.size() == 1);
  CHECK_THAT(lab.warnings[0], ContainsSubstring("the client key cannot be used"));
  files.write("key", second.key);
  lab.ask();
  CHECK(server.connections() == 2);
  CHECK(server.asked()[2].client == "first");
  CHECK(server.asked()[3].client == "second");

  Server renewed(lab.context, {"127.0.0.1", new_authority.issue("x", "IP:127.0.0.1"), ""}, hello());
  access.servers = access_to({url(renewed, "https")}).servers;
  lab.open(access);
  CHECK(lab.ask().ended == End::unreachable);
  files.write("ca", old_authority.certificate() + new_authority.certificate());
  CHECK(lab.ask().ended == End::whole);
}

TEST_CASE("REL-34: a server whose certificate has expired is named, and used again when that is renewed") {
  const Authority authority("ours");
  Lab lab;
  auto server = std::make_unique<Server>(
      lab.context, ServerOptions{"127.0.0.1", authority.issue("x", "IP:127.0.0.1", 60), ""}, hello());
  auto access = access_to({url(*server, "https")});
  access.authority.text = authority.certificate();
  access.token.text = "secret";
  lab.open(access);
  for (int i = 0; i < 2; ++i) {
    const auto reader = lab.ask();
    CHECK(reader.ended == End::unreachable);
    CHECK_THAT(reader.detail, ContainsSubstring(url(*server, "https") + ": its certificate is not trusted: "
                                                                        "certificate has expired"));
  }
  CHECK(server->asked().empty());
  Server renewed(lab.context, {"127.0.0.1", authority.issue("x", "IP:127.0.0.1"), ""}, hello());
  access.servers.push_back(parse_api_server(url(renewed, "https")));
  lab.open(access);  // one server of two has been renewed
  CHECK(lab.ask().ended == End::whole);
  CHECK(lab.line->server() == url(renewed, "https"));
}

TEST_CASE("REL-34: a client certificate that has expired is named, and works again when it is rotated") {
  const Authority authority("ours");
  const Files files;
  Lab lab;
  Server server(lab.context, {"127.0.0.1", authority.issue("x", "IP:127.0.0.1"), authority.certificate()},
                hello());
  const auto old = authority.issue("old", "", 60);
  const auto fresh = authority.issue("fresh", "");
  auto access = access_to({url(server, "https")});
  access.authority.text = authority.certificate();
  access.certificate = files.write("certificate", old.certificate);
  access.key = files.write("key", old.key);
  lab.open(access);
  for (int i = 0; i < 2; ++i) {
    const auto reader = lab.ask();
    CHECK(reader.ended != End::whole);
    CHECK_THAT(reader.detail, ContainsSubstring("certificate expired"));
  }
  CHECK(server.asked().empty());
  files.write("certificate", fresh.certificate);
  files.write("key", fresh.key);
  CHECK(lab.ask().ended == End::whole);
  CHECK(server.asked().at(0).client == "fresh");
}

TEST_CASE("k8s client: credentials that cannot be used are told at the start") {
  const Authority authority("ours");
  const auto identity = authority.issue("x", "");
  const auto other = authority.issue("y", "");
  const auto refused = [](const ApiAccess& access, const std::string& why) {
    Lab lab;
    CHECK_THROWS_MATCHES(lab.open(access), StartError, MessageMatches(ContainsSubstring(why)));
  };
  auto access = access_to({"https://127.0.0.1:1"});
  access.authority.text = "no certificate";
  refused(access, "the bundle of certificate authorities cannot be used");
  access.authority = {"", "/nonexistent/ca.crt"};
  refused(access, "cannot read /nonexistent/ca.crt");
  access.authority.text = authority.certificate();
  access.certificate.text = identity.certificate;
  refused(access, "belong together");
  access.key.text = other.key;
  refused(access, "the client key cannot be used");
  access.key.text = identity.key;
  access.token.text = "two words";
  refused(access, "the token cannot be used");
}

TEST_CASE("k8s client: the next server stands in for one that fails, and is kept") {
  Lab lab;
  auto first = std::make_unique<Server>(lab.context, ServerOptions{}, hello());
  Server second(lab.context, {}, hello());
  lab.open(access_to({url(*first), url(second)}));
  const auto other_line = lab.client->line();
  lab.ask();
  CHECK(first->asked().size() == 1);
  first.reset();
  CHECK(lab.ask().ended == End::whole);
  CHECK(lab.line->server() == url(second));
  CHECK(lab.ask().ended == End::whole);
  CHECK(second.connections() == 1);
  // A new connection is asked for because of what this server said: the others come first.
  CHECK(lab.ask(Connection::fresh).ended == End::whole);
  CHECK(lab.line->server() == url(second));
  second.stop();
  const auto reader = lab.ask();
  CHECK(reader.ended == End::unreachable);
  CHECK_THAT(reader.detail, ContainsSubstring("Connection refused; "));
  CHECK_THAT(reader.detail, ContainsSubstring(url(second)));
}

TEST_CASE("REL-77: a host's name is resolved again for each connection, its addresses tried in turn") {
  Lab lab;
  Server six(lab.context, {"::1", {}, ""}, hello());
  std::mutex mutex;
  std::size_t looked = 0;
  lab.lookup = [&](const std::string& host) {
    const std::lock_guard lock(mutex);
    ++looked;
    CHECK(host == "localhost");
    return Looked{{*Address::parse("127.0.0.1"), *Address::parse("::1")}, ""};
  };
  lab.open(access_to({url(six, "http", "localhost")}));
  CHECK(lab.ask().ended == End::whole);
  CHECK(lab.ask().ended == End::whole);
  CHECK(looked == 1);
  CHECK(lab.ask(Connection::fresh).ended == End::whole);
  CHECK(looked == 2);
  lab.lookup = [](const std::string&) { return Looked{{}, "no such host"}; };
  lab.open(access_to({"http://localhost:1"}));
  CHECK_THAT(lab.ask().detail, ContainsSubstring("no such host"));
}

TEST_CASE("k8s client: a look-up that takes too long is given up and hurts nobody") {
  std::mutex gate;
  gate.lock();
  {
    Lab lab;
    lab.patience.resolve = 20ms;
    lab.lookup = [&gate](const std::string&) {
      const std::lock_guard lock(gate);
      return Looked{};
    };
    lab.open(access_to({"http://localhost:1"}));
    const auto reader = lab.ask();
    CHECK(reader.ended == End::unreachable);
    CHECK_THAT(reader.detail, ContainsSubstring("not resolved in time"));
    Reader dropped;
    lab.line->ask({"/", "a/b"}, dropped);
    lab.context.run_for(5ms);
    lab.line->hang_up();
    lab.context.run_for(5ms);
    CHECK_FALSE(dropped.ended);
  }
  gate.unlock();
  std::this_thread::sleep_for(20ms);  // the thread that was left behind ends by itself
}

TEST_CASE("k8s client: a server that accepts and is silent is given up for the next") {
  const Authority authority("ours");
  Lab lab;
  lab.patience.handshake = 30ms;
  asio::ip::tcp::acceptor silent(lab.context, {asio::ip::make_address("127.0.0.1"), 0});
  Server server(lab.context, {"127.0.0.1", authority.issue("x", "IP:127.0.0.1"), ""}, hello());
  auto access =
      access_to({fmt::format("https://127.0.0.1:{}", silent.local_endpoint().port()), url(server, "https")});
  access.authority.text = authority.certificate();
  lab.open(access);
  CHECK(lab.ask().ended == End::whole);
  CHECK(lab.line->server() == url(server, "https"));
}

TEST_CASE("k8s client: the system's own look-up") {
  const auto looked = look_up_by_system("127.0.0.1");
  REQUIRE(looked.addresses.size() == 1);
  CHECK(looked.addresses[0].text() == "127.0.0.1");
  CHECK(look_up_by_system("::1").addresses.at(0).text() == "::1");
  CHECK_FALSE(look_up_by_system("256.256.256.256.invalid").problem.empty());
}
