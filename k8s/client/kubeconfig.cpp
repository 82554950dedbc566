// SPDX-License-Identifier: Apache-2.0
// Converts YAML to JSON by k8s/encoding, then reads field by field; unsupported fields are rejected by name.
#include "k8s/client/kubeconfig.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "k8s/client/bounded_file.hpp"
#include "k8s/encoding/rules.hpp"
#include "k8s/encoding/yaml.hpp"
#include "k8s/objects/error.hpp"
#include "k8s/objects/host_port.hpp"

namespace lb::k8s {
namespace {

namespace json = boost::json;

/// A kubeconfig with inline keys is a few KiB; a much larger file is not a kubeconfig.
constexpr std::size_t max_bytes = std::size_t{4} << 20U;

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw StartError(fmt::format("cannot use the kubeconfig {}: {}", path, what));
}

std::string read_whole(const std::string& path) {
  std::string text;
  switch (const int error = read_bounded(path, max_bytes, text); error) {
    case 0:
      return text;
    case EFBIG:
      refuse(path, "it is larger than 4 MiB");
    default:
      refuse(path, std::generic_category().message(error));
  }
}

bool is_empty(const json::value& value) {
  return (value.is_string() && value.get_string().empty()) || (value.is_array() && value.get_array().empty());
}

/// An object's members, and its path for messages.
class Fields {
 public:
  Fields(const std::string& path, std::string place, const json::value& value)
      : path_(path), place_(std::move(place)), object_(value.if_object()) {
    if (object_ == nullptr) {
      refuse(path_, fmt::format("{} is not a mapping", place_));
    }
  }

  [[nodiscard]] const json::value* find(std::string_view name) const {
    const auto* value = object_->if_contains(name);
    return value != nullptr && !value->is_null() ? value : nullptr;
  }
  /// The string member; empty if absent.
  [[nodiscard]] std::string text(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_string()) {
      refuse(path_, fmt::format("{} is not a string", field(name)));
    }
    return value != nullptr ? std::string(value->as_string()) : std::string();
  }
  [[nodiscard]] std::string needed(std::string_view name) const {
    auto value = text(name);
    if (value.empty()) {
      refuse(path_, fmt::format("{} is missing", field(name)));
    }
    return value;
  }
  [[nodiscard]] bool boolean(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_bool()) {
      refuse(path_, fmt::format("{} is neither true nor false", field(name)));
    }
    return value != nullptr && value->as_bool();
  }
  /// An empty text or list counts as absent, as for client-go.
  void refuse_if_present(std::string_view name, std::string_view instead) const {
    if (const auto* value = find(name); value != nullptr && !is_empty(*value)) {
      refuse(path_, fmt::format("{} is not supported; {}", field(name), instead));
    }
  }
  /// Decodes NAME-data if present, else takes NAME as a file name relative to the kubeconfig.
  [[nodiscard]] Material material(std::string_view name) const {
    const auto data = text(fmt::format("{}-data", name));
    if (!data.empty()) {
      return {decode_base64(data, fmt::format("{}-data of the kubeconfig {}", field(name), path_)), ""};
    }
    return {"", relative(text(name))};
  }
  [[nodiscard]] std::string relative(const std::string& file) const {
    return file.empty() ? file : (std::filesystem::absolute(path_).parent_path() / file).string();
  }
  /// The member `what` of the entry with `name` in the list `list`.
  [[nodiscard]] Fields entry(std::string_view list, std::string_view what, std::string_view name) const;

 private:
  [[nodiscard]] std::string field(std::string_view name) const {
    return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
  }

  const std::string& path_;
  std::string place_;
  const json::object* object_;
};

Fields Fields::entry(std::string_view list, std::string_view what, std::string_view name) const {
  const auto* entries = find(list);
  if (entries != nullptr && entries->is_array()) {
    for (const auto& element : entries->as_array()) {
      const Fields fields(path_, std::string(list), element);
      if (fields.text("name") == name) {
        const auto* value = fields.find(what);
        const auto place = fmt::format("{}[{}].{}", list, name, what);
        if (value == nullptr) {
          refuse(path_, fmt::format("{} is missing", place));
        }
        return {path_, place, *value};
      }
    }
  }
  refuse(path_, fmt::format("{} has no entry called {}", list, rules::quoted(name)));
}

void read_cluster(const Fields& cluster, Kubeconfig& config) {
  cluster.refuse_if_present("proxy-url", "reach the API server directly");
  auto& access = config.access;
  access.servers = {parse_api_server(cluster.needed("server"))};
  access.authority = cluster.material("certificate-authority");
  access.server_name = cluster.text("tls-server-name");
  if (cluster.boolean("insecure-skip-tls-verify")) {
    access.verification = Verification::none;
    config.warnings.push_back(fmt::format(
        "the certificate of {} is not verified (insecure-skip-tls-verify): any host in between can "
        "read the token and forge responses",
        access.servers.front().text()));
  }
}

void read_user(const Fields& user, ApiAccess& access) {
  user.refuse_if_present("exec", "use a client certificate, token or tokenFile");
  user.refuse_if_present("auth-provider", "use a client certificate, token or tokenFile");
  user.refuse_if_present("username", "use a client certificate, token or tokenFile");
  user.refuse_if_present("password", "use a client certificate, token or tokenFile");
  for (const auto* name : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    user.refuse_if_present(name, "give the agent a user of its own");
  }
  access.certificate = user.material("client-certificate");
  access.key = user.material("client-key");
  const auto file = user.text("tokenFile");
  access.token = file.empty() ? Material{user.text("token"), ""} : Material{"", user.relative(file)};
}

std::optional<unsigned> base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') {
    return c - 'A';
  }
  if (c >= 'a' && c <= 'z') {
    return c - 'a' + 26;
  }
  if (c >= '0' && c <= '9') {
    return c - '0' + 52;
  }
  return c == '+' ? std::optional(62U) : c == '/' ? std::optional(63U) : std::nullopt;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): it is never set
  return value != nullptr ? value : "";
}

}  // namespace

std::string decode_base64(std::string_view text, std::string_view field) {
  std::string out;
  unsigned bits = 0;
  unsigned count = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  bool good = true;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      continue;
    }
    const auto digit = base64_digit(c);
    padding += c == '=' ? 1 : 0;
    good = good && (c == '=' || (digit && padding == 0));
    ++digits;
    if (digit) {
      bits = (bits << 6U | *digit) & 0xffffU;
      count += 6;
    }
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xffU);
    }
  }
  if (!good || digits % 4 != 0 || padding > 2) {
    throw StartError(fmt::format("{} is not valid base64", field));
  }
  return out;
}

namespace {

json::value read_document(const std::string& path) {
  const auto yaml = yaml_to_json(read_whole(path));
  if (!yaml.error.empty()) {
    refuse(path, fmt::format("line {} {}", yaml.line + 1, yaml.error));
  }
  boost::system::error_code error;
  auto document = json::parse(yaml.json, error);
  if (error) {
    refuse(path, "it is not a YAML mapping");
  }
  return document;
}

}  // namespace

ApiServer read_kubeconfig_server(const std::string& path) {
  const auto document = read_document(path);
  const Fields root(path, "", document);
  const auto context = root.entry("contexts", "context", root.needed("current-context"));
  return parse_api_server(root.entry("clusters", "cluster", context.needed("cluster")).needed("server"));
}

Kubeconfig read_kubeconfig(const std::string& path) {
  const auto document = read_document(path);
  const Fields root(path, "", document);
  const auto context = root.entry("contexts", "context", root.needed("current-context"));
  Kubeconfig config;
  read_cluster(root.entry("clusters", "cluster", context.needed("cluster")), config);
  if (const auto user = context.text("user"); !user.empty()) {
    read_user(root.entry("users", "user", user), config.access);
  }
  if (config.access.verification == Verification::none && !config.access.authority.empty()) {
    refuse(path, "certificate-authority and insecure-skip-tls-verify exclude each other");
  }
  check_access(config.access);
  return config;
}

PodEnvironment PodEnvironment::from_environment() {
  return {.host = environment("KUBERNETES_SERVICE_HOST"), .port = environment("KUBERNETES_SERVICE_PORT")};
}

std::optional<ApiServer> server_of(const PodEnvironment& pod) {
  if (pod.host.empty() || pod.port.empty()) {
    return std::nullopt;
  }
  return parse_api_server("https://" + host_port(pod.host, pod.port));
}

ApiAccess in_cluster_access(const PodEnvironment& pod, std::vector<ApiServer> servers) {
  ApiAccess access;
  access.servers = std::move(servers);
  if (access.servers.empty()) {
    auto server = server_of(pod);
    if (!server) {
      throw StartError(
          "finds no API server: this is not a pod (KUBERNETES_SERVICE_HOST is not set); name a kubeconfig "
          "with --kubeconfig, or a directory of manifests with --manifests");
    }
    access.servers.push_back(std::move(*server));
  }
  const auto token = pod.directory + "/token";
  const auto authority = pod.directory + "/ca.crt";
  std::error_code ignored;
  if (std::filesystem::exists(token, ignored)) {
    access.token.file = token;
    access.authority.file = authority;
  } else if (access.servers.front().scheme == Scheme::https) {
    throw StartError(
        fmt::format("finds no credentials: there is no {}; name a kubeconfig with --kubeconfig, or mount a "
                    "service account's token",
                    token));
  }
  check_access(access);
  return access;
}

}  // namespace lb::k8s
