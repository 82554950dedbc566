// The client with several servers, and with names that have several addresses.
#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <mutex>
#include <thread>

#include "http_client.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace asio = boost::asio;

TEST_CASE("k8s client: the next server stands in for one that fails, and is kept") {
  ClientLab lab;
  auto first = std::make_unique<Server>(lab.context, ServerOptions{}, hello());
  Server second(lab.context, {}, hello());
  lab.open(access_to({url(*first), url(second)}));
  const auto other_connection = lab.client->connection();
  lab.ask();
  CHECK(first->asked().size() == 1);
  first.reset();
  CHECK(lab.ask().ended == End::complete);
  CHECK(lab.connection->server() == url(second));
  CHECK(lab.ask().ended == End::complete);
  CHECK(second.connections() == 1);
  // A fresh connection is requested because of this server's reply: the other servers are tried first.
  CHECK(lab.ask(Connection::fresh).ended == End::complete);
  CHECK(lab.connection->server() == url(second));
  second.stop();
  const auto reader = lab.ask();
  CHECK(reader.ended == End::unreachable);
  CHECK_THAT(reader.detail, ContainsSubstring("Connection refused; "));
  CHECK_THAT(reader.detail, ContainsSubstring(url(second)));
}

TEST_CASE("REL-77: a host's name is resolved again for each connection, its addresses tried in turn") {
  ClientLab lab;
  Server six(lab.context, {"::1", {}, ""}, hello());
  std::mutex mutex;
  std::size_t result = 0;
  lab.lookup = [&](const std::string& host) {
    const std::lock_guard lock(mutex);
    ++result;
    CHECK(host == "localhost");
    return LookupResult{{*Address::parse("127.0.0.1"), *Address::parse("::1")}, ""};
  };
  lab.open(access_to({url(six, "http", "localhost")}));
  CHECK(lab.ask().ended == End::complete);
  CHECK(lab.ask().ended == End::complete);
  CHECK(result == 1);
  CHECK(lab.ask(Connection::fresh).ended == End::complete);
  CHECK(result == 2);
  lab.lookup = [](const std::string&) { return LookupResult{{}, "no such host"}; };
  lab.open(access_to({"http://localhost:1"}));
  CHECK_THAT(lab.ask().detail, ContainsSubstring("no such host"));
}

TEST_CASE("k8s client: a look-up that takes too long is abandoned, and delays no other request") {
  std::mutex gate;
  gate.lock();
  {
    ClientLab lab;
    lab.timeouts.resolve = 20ms;
    lab.lookup = [&gate](const std::string&) {
      const std::lock_guard lock(gate);
      return LookupResult{};
    };
    lab.open(access_to({"http://localhost:1"}));
    const auto reader = lab.ask();
    CHECK(reader.ended == End::unreachable);
    CHECK_THAT(reader.detail, ContainsSubstring("not resolved in time"));
    Reader dropped;
    lab.connection->ask({"/", "a/b"}, dropped);
    lab.context.run_for(5ms);
    lab.connection->cancel();
    lab.context.run_for(5ms);
    CHECK_FALSE(dropped.ended);
  }
  gate.unlock();
  std::this_thread::sleep_for(20ms);  // the abandoned lookup thread ends by itself
}

TEST_CASE("k8s client: a server that accepts and is silent is given up for the next") {
  const Authority authority("ours");
  ClientLab lab;
  lab.timeouts.handshake = 30ms;
  asio::ip::tcp::acceptor silent(lab.context, {asio::ip::make_address("127.0.0.1"), 0});
  Server server(lab.context, {"127.0.0.1", authority.issue("x", "IP:127.0.0.1"), ""}, hello());
  auto access =
      access_to({fmt::format("https://127.0.0.1:{}", silent.local_endpoint().port()), url(server, "https")});
  access.authority.text = authority.certificate();
  lab.open(access);
  CHECK(lab.ask().ended == End::complete);
  CHECK(lab.connection->server() == url(server, "https"));
}

TEST_CASE("k8s client: the system's own look-up") {
  const auto result = look_up_by_system("127.0.0.1");
  REQUIRE(result.addresses.size() == 1);
  CHECK(result.addresses[0].text() == "127.0.0.1");
  CHECK(look_up_by_system("::1").addresses.at(0).text() == "::1");
  CHECK_FALSE(look_up_by_system("256.256.256.256.invalid").problem.empty());
}
