// SPDX-License-Identifier: Apache-2.0
// The client with several servers, and with names that have several addresses.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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

TEST_CASE("REL-162: a server is found by its last address when its name leads elsewhere, or nowhere") {
  const auto fakes = [] {
    LookupResult result;
    for (int at = 2; at < 250; ++at) {
      result.addresses.push_back(*Address::parse(fmt::format("127.0.0.{}", at)));
    }
    return result;
  }();
  struct Row {
    const char* what;
    LookupResult result;
    std::chrono::milliseconds delay;
  };
  const std::vector<Row> rows = {{"no answer", {{}, "Temporary failure in name resolution"}, 0ms},
                                 {"no address", {}, 0ms},
                                 {"the addresses of others", fakes, 0ms},
                                 {"no answer in time", {}, 1500ms}};
  for (const auto& row : rows) {
    INFO(row.what);
    std::atomic<bool> covered = false;
    ClientLab lab;
    lab.timeouts.resolve = 1s;
    const LookupResult truth{{*Address::parse("127.0.0.1")}, ""};
    lab.lookup = [&](const std::string&) {
      if (!covered) {
        return truth;
      }
      std::this_thread::sleep_for(row.delay);
      return row.result;
    };
    Server server(lab.context, {}, hello());
    lab.open(access_to({url(server, "http", "localhost")}));
    REQUIRE(lab.ask().ended == End::complete);
    const auto known = lab.client->addresses();
    CHECK(known == std::vector<ServerAddress>{{truth.addresses.front(), server.port()}});
    covered = true;
    CHECK(lab.ask(Connection::fresh).ended == End::complete);
    // Addresses that are known stay: no Service may have them.
    const auto kept = lab.client->addresses();
    CHECK(kept == known);
    server.stop();
    CHECK(lab.ask(Connection::fresh).ended == End::unreachable);
  }
}

TEST_CASE("REL-162: addresses by which no server was found are not taken for a server's") {
  ClientLab lab;
  lab.lookup = [](const std::string&) { return LookupResult{{*Address::parse("127.0.0.2")}, ""}; };
  lab.open(access_to({"http://localhost:1"}));
  CHECK(lab.ask().ended == End::unreachable);
  CHECK(lab.client->addresses().empty());
}

TEST_CASE("REL-162: of the addresses beside a server's a few count, until its name says otherwise") {
  ClientLab lab;
  Server server(lab.context, {}, hello());
  std::size_t others = 100;
  lab.lookup = [&](const std::string&) {
    LookupResult result{{*Address::parse("127.0.0.1")}, ""};
    for (std::size_t at = 0; at < others; ++at) {
      result.addresses.push_back(*Address::parse(fmt::format("192.0.2.{}", at)));
    }
    return result;
  };
  lab.open(access_to({url(server, "http", "localhost")}));
  std::size_t notices = 0;
  lab.client->on_addresses([&] { ++notices; });
  REQUIRE(lab.ask().ended == End::complete);
  CHECK(lab.client->addresses().size() == 8);
  CHECK(notices == 1);
  others = 0;
  REQUIRE(lab.ask(Connection::fresh).ended == End::complete);
  CHECK(lab.client->addresses() == std::vector<ServerAddress>{{*Address::parse("127.0.0.1"), server.port()}});
  CHECK(notices == 2);
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
  lab.timeouts.handshake = 1s;
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
