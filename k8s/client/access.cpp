// SPDX-License-Identifier: Apache-2.0
// Parses URLs of API servers, and rejects unsafe ones.
#include "k8s/client/access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "k8s/objects/error.hpp"
#include "k8s/objects/host_port.hpp"
#include "k8s/objects/model.hpp"

namespace lb::k8s {
namespace {

bool host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

bool path_character(char c) { return c > ' ' && c < 0x7f && c != '?' && c != '#'; }

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool good = error == std::errc{} && stop == text.data() + text.size() && port != 0;
  return good ? std::optional(port) : std::nullopt;
}

/// Parses "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT"; false for anything else.
bool read_authority(std::string_view text, ApiServer& server) {
  const bool bracketed = text.starts_with('[');
  const auto host_end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
  if (host_end == text.npos) {
    return false;
  }
  server.host = text.substr(bracketed ? 1 : 0, host_end - (bracketed ? 1 : 0));
  const auto rest = text.substr(host_end + (bracketed ? 1 : 0));
  if (!rest.empty()) {
    const auto port = rest.starts_with(':') ? port_of(rest.substr(1)) : std::nullopt;
    if (!port) {
      return false;
    }
    server.port = *port;
  }
  if (bracketed) {
    const auto address = Address::parse(server.host);
    return address && server.host.find(':') != std::string::npos;
  }
  return !server.host.empty() && std::ranges::all_of(server.host, host_character);
}

bool is_loopback(const ApiServer& server) {
  const auto address = Address::parse(server.host);
  return address ? address->loopback() : server.host == "localhost";
}

}  // namespace

std::string ApiServer::text() const {
  return fmt::format("{}://{}", scheme == Scheme::https ? "https" : "http", host_port(host, port));
}

bool ApiServer::host_is_address() const { return Address::parse(host).has_value(); }

ApiServer parse_api_server(std::string_view url) {
  ApiServer server;
  auto rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    server.scheme = Scheme::http;
    server.port = 80;
  } else {
    rest = {};
  }
  const auto slash = std::min(rest.find('/'), rest.size());
  auto prefix = rest.substr(slash);
  while (prefix.ends_with('/')) {
    prefix.remove_suffix(1);
  }
  server.prefix = prefix;
  if (!read_authority(rest.substr(0, slash), server) || !std::ranges::all_of(prefix, path_character)) {
    throw StartError(fmt::format(
        "'{}' is not the address of an API server; write it as https://HOST:PORT, IPv6 addresses in brackets",
        url));
  }
  return server;
}

void check_access(const ApiAccess& access) {
  if (access.servers.empty()) {
    throw StartError("no API server is named; name one with --api-server");
  }
  if (access.certificate.empty() != access.key.empty()) {
    throw StartError("a client certificate and its key belong together, and one of them is missing");
  }
  const bool credentials = !access.token.empty() || !access.certificate.empty();
  for (const auto& server : access.servers) {
    if (server.scheme == Scheme::https) {
      continue;
    }
    if (credentials) {
      throw StartError(fmt::format("credentials would go to {} in the clear; use https", server.text()));
    }
    if (!is_loopback(server)) {
      throw StartError(fmt::format("{} is neither encrypted nor on this machine; use https", server.text()));
    }
  }
}

}  // namespace lb::k8s
