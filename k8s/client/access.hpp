// SPDX-License-Identifier: Apache-2.0
// The configured addresses of the API servers and the credentials for them. Plain values; kubeconfig reads
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lb::k8s {

/// A credential: its text, or a file with it, which is read again when it changes.
struct Material {
  std::string text;  ///< used if not empty
  std::string file;

  [[nodiscard]] bool empty() const { return text.empty() && file.empty(); }
  bool operator==(const Material&) const = default;
};

enum class Scheme : std::uint8_t { https, http };

struct ApiServer {
  Scheme scheme = Scheme::https;
  std::string host;  ///< a name, or an address (IPv6 without brackets)
  std::uint16_t port = 443;
  std::string prefix;            ///< prefix of every path: "" or "/clusters/one"
  std::string certificate_name;  ///< name that the certificate must have; empty: the host

  /// The URL "https://[fd00::1]:6443", without the prefix.
  [[nodiscard]] std::string text() const;
  /// The name that the server's certificate must have.
  [[nodiscard]] const std::string& certificate() const {
    return certificate_name.empty() ? host : certificate_name;
  }
  /// Whether the host is an address, like "fd00::1" and "10.0.0.1", and not a name like "localhost".
  [[nodiscard]] bool host_is_address() const;
  bool operator==(const ApiServer&) const = default;
};

/// How the server's certificate is verified.
enum class Verification : std::uint8_t { full, none };

struct ApiAccess {
  std::vector<ApiServer> servers;  ///< servers of the same API; the first that responds is used
  Material authority;              ///< PEM certificates; empty: the system's
  Material certificate;            ///< client certificate, PEM, followed by its chain
  Material key;
  Material token;
  std::string server_name;  ///< name that the server's certificate must have; empty: its host
  Verification verification = Verification::full;
  bool operator==(const ApiAccess&) const = default;
};

/// Parses "https://HOST[:PORT][/PREFIX]", or http. Throws StartError for anything else.
[[nodiscard]] ApiServer parse_api_server(std::string_view url);

/// Throws StartError for invalid combinations: a certificate without its key, and plain http with credentials
/// or to another machine (REL-87).
void check_access(const ApiAccess& access);

}  // namespace lb::k8s
