// SPDX-License-Identifier: Apache-2.0
// Kubeconfig files and a pod's service account: the resulting access, and a message for each part that is
// ignored.
#include "k8s/client/kubeconfig.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "k8s/client/credentials.hpp"
#include "k8s/objects/error.hpp"
#include "tests/lib/temp_directory.hpp"

using namespace lb::k8s;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

struct Directory : lb::test::TempDirectory {
  std::string write(const std::string& name, const std::string& text) const {
    const auto file = path / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
};

std::string config_text(const std::string& cluster, const std::string& user) {
  return fmt::format(
      "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
      "contexts:\n- name: elsewhere\n  context: {{cluster: none}}\n- name: here\n  context: {{cluster: c, "
      "user: u, namespace: x}}\n"
      "clusters:\n- name: c\n  cluster: {{{}}}\nusers:\n- name: u\n  user: {{{}}}\n",
      cluster, user);
}

const std::string plain_server = "server: 'https://api.example:6443'";

void check_refused(const std::string& text, const std::string& why) {
  CAPTURE(text, why);
  const Directory directory;
  CHECK_THROWS_MATCHES(read_kubeconfig(directory.write("config", text)), StartError,
                       MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("k8s kubeconfig: files are relative to it, data is decoded and wins") {
  const Directory directory;
  const auto path = directory.write(
      "config", config_text(plain_server + ", certificate-authority: ca.crt, tls-server-name: kubernetes",
                            "client-certificate: /etc/us.crt, client-key: keys/us.key, client-key-data: " +
                                std::string("aGVsbG8=") + ", tokenFile: token, token: old"));
  const auto access = read_kubeconfig(path).access;
  REQUIRE(access.servers.size() == 1);
  CHECK(access.servers[0].text() == "https://api.example:6443");
  CHECK(access.authority == Material{"", directory.path.string() + "/ca.crt"});
  CHECK(access.certificate == Material{"", "/etc/us.crt"});
  CHECK(access.key == Material{"hello", ""});
  CHECK(access.token == Material{"", directory.path.string() + "/token"});
  CHECK(access.server_name == "kubernetes");
  CHECK(access.verification == Verification::full);
}

TEST_CASE("k8s kubeconfig: JSON is YAML, and a user is not needed") {
  const Directory directory;
  const auto path =
      directory.write("config", R"({"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],
    "clusters":[{"name":"c","cluster":{"server":"https://[fd00::1]:6443/one/two/","insecure-skip-tls-verify":true}}]})");
  const auto config = read_kubeconfig(path);
  CHECK(config.access.servers[0].text() == "https://[fd00::1]:6443");
  CHECK(config.access.servers[0].prefix == "/one/two");
  CHECK(config.access.verification == Verification::none);
  REQUIRE(config.warnings.size() == 1);
  CHECK_THAT(config.warnings[0], ContainsSubstring("insecure-skip-tls-verify"));
}

TEST_CASE("k8s kubeconfig: an empty field that is not supported is absent") {
  const Directory directory;
  const auto path =
      directory.write("config", config_text(plain_server + ", proxy-url: ''",
                                            "token: t, username: '', password: '', as: '', as-groups: []"));
  CHECK(read_kubeconfig(path).access.token == Material{"t", ""});
}

TEST_CASE("k8s kubeconfig: what is not supported or wrong is named") {
  const std::string user = "token: t";
  check_refused(config_text(plain_server, "exec: {command: aws}"), "users[u].user.exec is not supported");
  check_refused(config_text(plain_server, "auth-provider: {name: gcp}"), "users[u].user.auth-provider");
  check_refused(config_text(plain_server, "username: me, password: secret"), "users[u].user.username");
  check_refused(config_text(plain_server, "token: t, as: root"), "users[u].user.as");
  check_refused(config_text(plain_server + ", proxy-url: 'http://p'", user), "clusters[c].cluster.proxy-url");
  check_refused(config_text("certificate-authority: x", user), "clusters[c].cluster.server is missing");
  check_refused(config_text("server: 17", user), "clusters[c].cluster.server is not a string");
  check_refused(config_text("server: 'ftp://x'", user), "'ftp://x' is not the address of an API server");
  check_refused(config_text(plain_server + ", insecure-skip-tls-verify: 'yes'", user),
                "neither true nor false");
  check_refused(
      config_text(plain_server + ", insecure-skip-tls-verify: true, certificate-authority: x", user),
      "exclude each other");
  check_refused(config_text(plain_server + ", certificate-authority-data: '%%'", user),
                "is not valid base64");
  check_refused(config_text(plain_server, "client-certificate: x"), "belong together");
  check_refused(config_text("server: 'http://127.0.0.1:8080'", user), "in the clear");
  check_refused(config_text("server: 'http://10.0.0.1:8080'", ""), "neither encrypted nor on this machine");
  check_refused("current-context: x\ncontexts: []\n", "contexts has no entry called \"x\"");
  check_refused("contexts: []\n", "current-context is missing");
  check_refused("- a\n- b\n", "is not a mapping");
  check_refused("a: [\n", "is not valid YAML");
  check_refused(
      "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
      "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
      "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
      "aliases");
  CHECK_THROWS_MATCHES(read_kubeconfig("/nonexistent/config"), StartError,
                       MessageMatches(ContainsSubstring("cannot use the kubeconfig /nonexistent/config")));
}

TEST_CASE("k8s access: addresses of servers") {
  struct Row {
    const char* url;
    const char* text;  ///< null: expect an error
  };
  const Row rows[] = {
      {"https://10.0.0.1:6443", "https://10.0.0.1:6443"},
      {"https://api.example", "https://api.example:443"},
      {"https://api.example/", "https://api.example:443"},
      {"http://localhost:8080", "http://localhost:8080"},
      {"http://[::1]", "http://[::1]:80"},
      {"https://[fd00::1]:1/x", "https://[fd00::1]:1"},
      {"https://", nullptr},
      {"10.0.0.1:6443", nullptr},
      {"https://fd00::1:6443", nullptr},
      {"https://[10.0.0.1]:6443", nullptr},
      {"https://[fd00::1", nullptr},
      {"https://a:0", nullptr},
      {"https://a:65536", nullptr},
      {"https://a:1:2", nullptr},
      {"https://user@a", nullptr},
      {"https://a b", nullptr},
      {"https://a/x y", nullptr},
      {"https://a/?x", nullptr},
      {"https://a\r\nX: y", nullptr},
  };
  for (const auto& row : rows) {
    CAPTURE(row.url);
    if (row.text == nullptr) {
      CHECK_THROWS_AS(parse_api_server(row.url), StartError);
    } else {
      CHECK(parse_api_server(row.url).text() == row.text);
    }
  }
}

TEST_CASE("k8s access: a pod's own") {
  const Directory directory;
  PodEnvironment pod{.host = "fd00::1", .port = "443", .directory = directory.path.string()};
  CHECK_THROWS_MATCHES(in_cluster_access(pod, {}), StartError,
                       MessageMatches(ContainsSubstring("no credentials")));
  directory.write("token", "secret\n");
  directory.write("ca.crt", "a certificate");
  const auto access = in_cluster_access(pod, {});
  CHECK(access.servers[0].text() == "https://[fd00::1]:443");
  CHECK(access.token.file == directory.path.string() + "/token");
  CHECK(access.authority.file == directory.path.string() + "/ca.crt");
  CHECK(
      in_cluster_access(pod, {parse_api_server("https://a"), parse_api_server("https://b")}).servers.size() ==
      2);
  pod.host.clear();
  CHECK_THROWS_MATCHES(in_cluster_access(pod, {}), StartError,
                       MessageMatches(ContainsSubstring("--kubeconfig")));
  CHECK_THROWS_AS(in_cluster_access(pod, {parse_api_server("http://127.0.0.1:1")}), StartError);
  pod.directory = "/nonexistent";
  const auto plain = in_cluster_access(pod, {parse_api_server("http://127.0.0.1:1")});
  CHECK(plain.token.empty());
}

TEST_CASE("k8s access: where a pod and a kubeconfig say that the API is, whoever the user is") {
  CHECK(server_of({.host = "10.96.0.1", .port = "443", .directory = ""})->text() == "https://10.96.0.1:443");
  CHECK_FALSE(server_of({.host = "10.96.0.1", .port = "", .directory = ""}).has_value());
  const Directory directory;
  const auto file = directory.write("kubeconfig.conf", R"(
apiVersion: v1
kind: Config
clusters: [{name: default, cluster: {server: "https://control.example:6443", certificate-authority: /none}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
current-context: default
users: [{name: default, user: {exec: {command: aws}}}]
)");
  CHECK(read_kubeconfig_server(file).text() == "https://control.example:6443");
  CHECK_THROWS_AS(read_kubeconfig(file), StartError);
  CHECK_THROWS_AS(read_kubeconfig_server(directory.write("none", "a: b")), StartError);
}

TEST_CASE("k8s access: a server's certificate is for its host, or for the name that is given") {
  auto server = parse_api_server("https://10.0.0.1:6443");
  CHECK(server.certificate() == "10.0.0.1");
  server.certificate_name = "kubernetes.default.svc";
  CHECK(server.certificate() == "kubernetes.default.svc");
}

TEST_CASE("REL-34: credentials follow their files, and outlive them") {
  const Directory directory;
  const auto file = directory.write("token", "one\n");
  Credential token(Material{"", file});
  CHECK(token.refresh() == Credential::Change::changed);
  CHECK(bearer_token(token.text()) == "one");
  CHECK(token.refresh() == Credential::Change::none);
  directory.write("token", "two\n");
  CHECK(token.refresh() == Credential::Change::changed);
  CHECK(bearer_token(token.text()) == "two");
  std::filesystem::remove(file);
  CHECK(token.refresh() == Credential::Change::none);
  CHECK(bearer_token(token.text()) == "two");
  CHECK_THAT(token.problem(), ContainsSubstring("cannot read"));
  CHECK(bearer_token("a\r\nX-Admin: yes").empty());
}

TEST_CASE("k8s kubeconfig: base64") {
  CHECK(decode_base64("", "x").empty());
  CHECK(decode_base64("aGVsbG8h", "x") == "hello!");
  CHECK(decode_base64("aGVs\nbG8g\n", "x") == "hello ");
  CHECK(decode_base64("/+8=", "x") == "\xff\xef");
  CHECK(decode_base64("AA==", "x") == std::string(1, '\0'));
  for (const auto* bad : {"a", "aGVs=", "a===", "aG=s", "aGV-", "===="}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(decode_base64(bad, "x"), StartError);
  }
}
