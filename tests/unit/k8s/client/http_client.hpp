// SPDX-License-Identifier: Apache-2.0
// An HTTP client for tests against the server of server.hpp.
#pragma once

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "k8s/client/http_client.hpp"
#include "server.hpp"
#include "tests/lib/temp_directory.hpp"

namespace lb::k8s::testing {

class Reader final : public ResponseHandler {
 public:
  ReadControl head(const ApiHead& head) override {
    status = head.status;
    return ReadControl::proceed;
  }
  ReadControl body(std::string_view bytes) override {
    content += bytes;
    return content.size() < most ? ReadControl::proceed : ReadControl::stop;
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

struct Files : lb::test::TempDirectory {
  /// Writes a file atomically, as the kubelet does for a Secret's volume.
  Material write(const std::string& name, const std::string& text) const {
    std::ofstream(path / ".new", std::ios::binary) << text;
    std::filesystem::rename(path / ".new", path / name);
    return {"", (path / name).string()};
  }
};

/// A client and the warnings that it logs.
struct ClientLab {
  boost::asio::io_context context{1};
  std::vector<std::string> warnings;
  std::unique_ptr<ApiClient> client;
  std::unique_ptr<ApiConnection> connection;
  ConnectTimeouts timeouts{std::chrono::seconds(5), std::chrono::seconds(5), std::chrono::seconds(5)};
  Lookup lookup = [](const std::string&) { return LookupResult{{*Address::parse("127.0.0.1")}, ""}; };

  void open(ApiAccess access) {
    client = std::make_unique<ApiClient>(
        context, std::move(access), [this](std::string text) { warnings.push_back(std::move(text)); },
        timeouts, lookup);
    connection = client->connection();
  }
  Reader ask(Connection how = Connection::any, const std::string& target = "/x") {
    Reader reader;
    connection->ask({target, "application/json", how}, reader);
    CHECK_FALSE(reader.ended);
    REQUIRE(run_until(context, [&] { return reader.ended.has_value(); }));
    return reader;
  }
};

inline ApiAccess access_to(const std::vector<std::string>& urls) {
  ApiAccess access;
  for (const auto& url : urls) {
    access.servers.push_back(parse_api_server(url));
  }
  return access;
}

inline std::string url(const Server& server, const std::string& scheme = "http",
                       const std::string& host = "127.0.0.1") {
  return fmt::format("{}://{}:{}", scheme, host, server.port());
}

inline Server::Handler hello() {
  return [](const Asked&) { return Reply{{answer(200, "hello")}}; };
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lb::k8s::testing
