// The addresses of the API servers and the credentials for them, as configured. Plain values; kubeconfig
// reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lb::k8s {

/// Text as it is, or the file that has it, which is read again whenever it changes.
struct Material {
  std::string text;  ///< counts if it is not empty
  std::string file;

  [[nodiscard]] bool empty() const { return text.empty() && file.empty(); }
  bool operator==(const Material&) const = default;
};

enum class Scheme : std::uint8_t { https, http };

struct ApiServer {
  Scheme scheme = Scheme::https;
  std::string host;  ///< a name or an address, IPv6 without brackets
  std::uint16_t port = 443;
  std::string prefix;            ///< of every path: "" or "/clusters/one"
  std::string certificate_name;  ///< what its certificate must be for; empty: the host

  /// "https://[fd00::1]:6443", without the prefix.
  [[nodiscard]] std::string text() const;
  /// The name that its certificate must have.
  [[nodiscard]] const std::string& certificate() const {
    return certificate_name.empty() ? host : certificate_name;
  }
  /// "fd00::1" and "10.0.0.1" are, "localhost" is not.
  [[nodiscard]] bool host_is_address() const;
  bool operator==(const ApiServer&) const = default;
};

/// Of the server's certificate.
enum class Verification : std::uint8_t { full, none };

struct ApiAccess {
  std::vector<ApiServer> servers;  ///< the same API behind each; the first that answers is used
  Material authority;              ///< PEM certificates; empty: the system's
  Material certificate;            ///< ours, PEM, its chain after it
  Material key;
  Material token;
  std::string server_name;  ///< what the server's certificate must be for; empty: its host
  Verification verification = Verification::full;
  bool operator==(const ApiAccess&) const = default;
};

/// "https://HOST[:PORT][/PREFIX]", or http. Throws StartError for anything else.
[[nodiscard]] ApiServer parse_api_server(std::string_view url);

/// Throws StartError for what must not be: a certificate without its key, and plain http with credentials or
/// to another machine (REL-87).
void check_access(const ApiAccess& access);

}  // namespace lb::k8s
