// SPDX-License-Identifier: Apache-2.0
// The client's requests and connections against a server that misbehaves.
#include "http_client.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "k8s/objects/error.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("k8s client: requests share a connection, and say what they must") {
  ClientLab lab;
  Server server(lab.context, {}, hello());
  lab.open(access_to({url(server) + "/prefix"}));
  for (int i = 0; i < 3; ++i) {
    const auto reader = lab.ask();
    CHECK(reader.ended == End::complete);
    CHECK(reader.status == 200);
    CHECK(reader.content == "hello");
  }
  CHECK(server.connections() == 1);
  CHECK(lab.connection->server() == url(server));
  CHECK(server.asked()[0].target == "/prefix/x");
  const auto& head = server.asked()[0].head;
  CHECK_THAT(head, ContainsSubstring(fmt::format("\r\nHost: 127.0.0.1:{}\r\n", server.port())));
  CHECK_THAT(head, ContainsSubstring("\r\nAccept: application/json\r\n"));
  CHECK_THAT(head, ContainsSubstring("\r\nAccept-Encoding: gzip\r\n"));
  CHECK_FALSE(has(head, "Authorization"));
  CHECK(lab.ask(Connection::fresh).ended == End::complete);
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
      {"byte by byte", {bytes}, End::complete, "hello"},
      {"no answer", {{}, After::close}, End::truncated, ""},
      {"half a head", {{"HTTP/1.1 200 O"}, After::close}, End::truncated, ""},
      {"cut in a chunk", {{stream_head() + "a\r\nhel"}, After::close}, End::truncated, "hel"},
      {"cut between chunks", {{stream_head(), chunk("hello")}, After::close}, End::truncated, "hello"},
      {"reset", {{stream_head(), chunk("hello")}, After::reset}, End::truncated, ""},
      {"closed by its end",
       {{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"}, After::close},
       End::complete,
       "hello"},
      {"no HTTP", {{"SSH-2.0-x\r\n\r\n"}, After::close}, End::truncated, ""},
      {"no end", {{stream_head() + chunk("hello")}, After::silence}, End::stopped, "hello"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    ClientLab lab;
    Server server(lab.context, {}, [&](const Asked&) { return row.reply; });
    lab.open(access_to({url(server)}));
    Reader reader;
    reader.most = row.how == End::stopped ? 5 : std::string::npos;
    lab.connection->ask({"/", "a/b"}, reader);
    REQUIRE(run_until(lab.context, [&] { return reader.ended.has_value(); }));
    CHECK(*reader.ended == row.how);
    if (row.reply.after != After::reset) {
      CHECK(reader.content == row.content);
    }
    CHECK_THAT(reader.detail, ContainsSubstring(url(server)));
    // The connection remains usable.
    Reader next;
    lab.connection->ask({"/", "a/b"}, next);
    REQUIRE(run_until(lab.context, [&] { return next.ended || next.content == row.content; }));
    lab.connection->cancel();
  }
}

TEST_CASE("k8s client: a connection that was closed while it was idle is opened again unasked") {
  ClientLab lab;
  Server server(lab.context, {}, hello());
  lab.open(access_to({url(server)}));
  CHECK(lab.ask().ended == End::complete);
  server.cut();
  CHECK(lab.ask().ended == End::complete);
  CHECK(server.connections() == 2);
}

TEST_CASE("k8s client: nothing is reported after cancel(), and the connection can be used again or dropped") {
  ClientLab lab;
  Server server(lab.context, {}, [](const Asked& asked) {
    return asked.target == "/silent" ? Reply{{stream_head()}, After::silence} : Reply{{answer(200, "hello")}};
  });
  lab.open(access_to({url(server)}));
  Reader silent;
  lab.connection->ask({"/silent", "a/b"}, silent);
  REQUIRE(run_until(lab.context, [&] { return silent.status == 200; }));
  lab.connection->cancel();
  CHECK(lab.ask().content == "hello");
  server.push(chunk("late"));
  CHECK(lab.ask().content == "hello");
  CHECK_FALSE(silent.ended);
  CHECK(silent.content.empty());
  Reader at_once;
  lab.connection->ask({"/", "a/b"}, at_once);
  lab.connection->cancel();
  lab.connection.reset();
  lab.client.reset();
  lab.context.run_for(20ms);
  CHECK_FALSE(at_once.ended);
}

TEST_CASE("REL-87: redirects are not followed") {
  ClientLab lab;
  Server elsewhere(lab.context, {}, hello());
  Server server(lab.context, {}, [&](const Asked&) {
    return Reply{{answer(302, "", fmt::format("Location: {}/\r\n", url(elsewhere)))}};
  });
  lab.open(access_to({url(server)}));
  const auto reader = lab.ask();
  CHECK(reader.status == 302);
  CHECK(reader.ended == End::complete);
  CHECK(elsewhere.connections() == 0);
  CHECK(server.asked().size() == 1);
}

TEST_CASE("REL-87: no token in the clear, and nothing in the clear to another machine") {
  ClientLab lab;
  auto access = access_to({"http://127.0.0.1:1"});
  access.token.text = "secret";
  CHECK_THROWS_MATCHES(lab.open(access), StartError, MessageMatches(ContainsSubstring("in the clear")));
  CHECK_THROWS_AS(lab.open(access_to({"http://192.0.2.1:1"})), StartError);
  lab.lookup = [](const std::string&) { return LookupResult{{*Address::parse("192.0.2.1")}, ""}; };
  lab.open(access_to({"http://localhost:1"}));  // whatever the resolver returns
  const auto reader = lab.ask();
  CHECK(reader.ended == End::unreachable);
  CHECK_THAT(reader.detail, ContainsSubstring("neither encrypted nor on this machine"));
}

TEST_CASE("k8s client: each request is reported once, by its answer's status or as one without") {
  ClientLab lab;
  Server server(lab.context, {}, [](const Asked& asked) {
    if (asked.target == "/cut") {
      return Reply{{"HTTP/1.1 200 O"}, After::close};
    }
    if (asked.target.starts_with("/watched")) {
      return Reply{{stream_head()}, After::silence};
    }
    return Reply{{answer(asked.target == "/absent" ? 404 : 200, "hello")}};
  });
  lab.open(access_to({url(server)}));
  std::vector<std::string> outcomes;
  lab.client->on_outcome([&](const RequestOutcome& outcome) {
    CHECK(outcome.host == fmt::format("127.0.0.1:{}", server.port()));
    CHECK(outcome.took < 10s);
    outcomes.push_back(
        fmt::format("{} {}{}", outcome.method, outcome.status, outcome.is_watch ? " watch" : ""));
  });
  const auto ask = [&](const ApiRequest& request) {
    Reader reader;
    lab.connection->ask(request, reader);
    REQUIRE(run_until(lab.context,
                      [&] { return reader.ended || (reader.status == 200 && reader.content.empty()); }));
    lab.connection->cancel();
  };
  ask({"/", "a/b"});
  ask({"/absent", "a/b"});
  ask({.target = "/", .accept = "a/b", .body = "{}"});
  ask({"/watched?watch=1", "a/b"});
  ask({"/cut", "a/b"});
  server.stop();
  ask({"/", "a/b", Connection::fresh});
  CHECK(outcomes ==
        std::vector<std::string>{"GET 200", "GET 404", "POST 200", "GET 200 watch", "GET 0", "GET 0"});
}
