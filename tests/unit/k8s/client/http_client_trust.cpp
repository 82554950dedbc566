// SPDX-License-Identifier: Apache-2.0
// Authentication of both sides: certificates and tokens, also when they rotate and expire.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "http_client.hpp"
#include "k8s/objects/error.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

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
    const char* why_not;  ///< the expected error; empty: accepted
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
    ClientLab lab;
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
      CHECK(reader.ended == End::complete);
      CHECK(reader.content == "hello");
      CHECK_THAT(server.asked().at(0).head, ContainsSubstring("\r\nAuthorization: Bearer secret\r\n"));
    } else {
      CHECK(reader.ended == End::unreachable);
      CHECK_THAT(reader.detail, ContainsSubstring(row.why_not));
      CHECK(server.asked().empty());
      access.verification = Verification::none;
      lab.open(access);
      CHECK(lab.ask().ended == End::complete);
    }
  }
}

TEST_CASE("REL-34: a token that rotates is used at once, on the same connection") {
  const Authority authority("ours");
  const Files files;
  ClientLab lab;
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
  ClientLab lab;
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
  lab.ask();  // half rotated: the key does not match the certificate
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
  CHECK(lab.ask().ended == End::complete);
}

TEST_CASE("REL-34: an authority that rotates while another file cannot be read is used once that can") {
  const Authority old_authority("old");
  const Authority new_authority("new");
  const Files files;
  ClientLab lab;
  Server server(lab.context, {"127.0.0.1", new_authority.issue("x", "IP:127.0.0.1"), ""}, hello());
  auto access = access_to({url(server, "https")});
  access.authority = files.write("ca", old_authority.certificate());
  access.token = files.write("token", "one");
  lab.open(access);
  CHECK(lab.ask().ended == End::unreachable);
  files.write("ca", new_authority.certificate());
  std::filesystem::remove(files.path / "token");
  CHECK(lab.ask().ended == End::unreachable);
  REQUIRE(lab.warnings.size() == 1);
  CHECK_THAT(lab.warnings[0], ContainsSubstring("cannot read"));
  files.write("token", "two");
  CHECK(lab.ask().ended == End::complete);
  REQUIRE(server.asked().size() == 1);
  CHECK_THAT(server.asked()[0].head, ContainsSubstring("Bearer two\r\n"));
}

TEST_CASE("REL-34: a server whose certificate has expired is named, and used again when that is renewed") {
  const Authority authority("ours");
  ClientLab lab;
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
  lab.open(access);  // one of the two servers has a renewed certificate
  CHECK(lab.ask().ended == End::complete);
  CHECK(lab.connection->server() == url(renewed, "https"));
}

TEST_CASE("REL-34: a client certificate that has expired is named, and works again when it is rotated") {
  const Authority authority("ours");
  const Files files;
  ClientLab lab;
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
    CHECK(reader.ended != End::complete);
    CHECK_THAT(reader.detail, ContainsSubstring("certificate expired"));
  }
  CHECK(server.asked().empty());
  files.write("certificate", fresh.certificate);
  files.write("key", fresh.key);
  CHECK(lab.ask().ended == End::complete);
  CHECK(server.asked().at(0).client == "fresh");
}

TEST_CASE("k8s client: credentials that cannot be used are reported at the start") {
  const Authority authority("ours");
  const auto identity = authority.issue("x", "");
  const auto other = authority.issue("y", "");
  const auto refused = [](const ApiAccess& access, const std::string& why) {
    ClientLab lab;
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
