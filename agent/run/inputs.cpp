// SPDX-License-Identifier: Apache-2.0
// Chooses the source, and checks its settings before it starts.
#include "agent/run/inputs.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "agent/base/error.hpp"
#include "agent/run/api_server_cache.hpp"
#include "k8s/client/kubeconfig.hpp"
#include "k8s/manifests/manifests.hpp"
#include "k8s/watch/api_runtime.hpp"

namespace lb::agent {
namespace {

void require_directory(const std::string& path) {
  std::error_code error;
  const std::filesystem::directory_iterator opened(path, error);
  if (error) {
    throw StartError(fmt::format("cannot read the directory --manifests {} ({})", path, error.message()),
                     "name a directory of YAML or JSON files");
  }
}

/// API servers of kubeconfig files, which may be missing, for example without kube-proxy.
std::vector<k8s::ApiServer> servers_in(const std::vector<std::string>& files) {
  std::vector<k8s::ApiServer> servers;
  for (const auto& file : files) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) {
      continue;
    }
    try {
      servers.push_back(k8s::read_kubeconfig_server(file));
    } catch (const k8s::StartError& error) {
      spdlog::warn("--api-server-from {} is left out: {}", file, error.what());
    }
  }
  return servers;
}

/// All API servers known to a pod, the most reliable first, each once: the client tries the next one if one
/// does not respond.
std::vector<k8s::ApiServer> known_servers(const AgentOptions& options, const k8s::PodEnvironment& pod) {
  std::vector<k8s::ApiServer> servers;
  const auto add = [&servers](const k8s::ApiServer& server) {
    const auto same = [&server](const auto& known) { return known.text() == server.text(); };
    if (std::ranges::none_of(servers, same)) {
      servers.push_back(server);
    }
  };
  std::ranges::for_each(servers_in(options.api_server_files), add);
  if (const auto server = k8s::server_of(pod)) {
    add(*server);
  }
  std::ranges::for_each(remembered_servers(options.state, pod.host), add);
  return servers;
}

k8s::ApiAccess read_access(const AgentOptions& options) {
  std::vector<k8s::ApiServer> servers;
  servers.reserve(options.api_servers.size());
  for (const auto& url : options.api_servers) {
    servers.push_back(k8s::parse_api_server(url));
  }
  if (options.kubeconfig.empty()) {
    const auto pod = k8s::PodEnvironment::from_environment();
    return k8s::in_cluster_access(pod, servers.empty() ? known_servers(options, pod) : std::move(servers));
  }
  auto config = k8s::read_kubeconfig(options.kubeconfig);
  for (const auto& warning : config.warnings) {
    spdlog::warn("{}", warning);
  }
  if (!servers.empty()) {
    config.access.servers = std::move(servers);
    k8s::check_access(config.access);
  }
  return std::move(config.access);
}

std::string api_text(const k8s::ApiAccess& access) {
  std::string text = "the API at";
  for (const auto& server : access.servers) {
    text += ' ' + server.text();
  }
  return text;
}

k8s::ApiScope scope_of(const AgentOptions& options) {
  const bool json = options.api_format == ApiFormat::json;
  return {options.node, options.service_proxy_name, options.slice_selector,
          json ? k8s::ApiEncoding::json : k8s::ApiEncoding::protobuf, options.topology_labels};
}

}  // namespace

Inputs::Inputs(boost::asio::io_context& context, const AgentOptions& options)
    : context_(context), options_(options) {
  if (!options.manifests.empty()) {
    require_directory(options.manifests);
    text_ = "the manifests in " + options.manifests;
    return;
  }
  auto access = read_access(options);
  text_ = api_text(access);
  client_ = std::make_unique<k8s::ApiClient>(context, std::move(access), [](const std::string& message) {
    spdlog::warn("API access: {}", message);
  });
}

void Inputs::start(k8s::Sink& sink) {
  if (client_) {
    const auto warn = [](const std::string& message) { spdlog::warn("API: {}", message); };
    const auto runtime = k8s::asio_runtime(context_, *client_, std::random_device{}());
    events_ =
        std::make_unique<k8s::EventPoster>(runtime, std::chrono::system_clock::now, options_.node, warn);
    auto api = std::make_unique<k8s::ApiSource>(scope_of(options_), runtime, sink, warn);
    api_ = api.get();
    source_ = std::move(api);
  } else {
    source_ = std::make_unique<k8s::ManifestSource>(context_, options_.manifests, sink);
  }
  source_->start();
}

std::vector<ListeningAddress> Inputs::api_servers() const {
  std::vector<ListeningAddress> addresses;
  if (client_) {
    for (const auto& place : client_->addresses()) {
      addresses.push_back({place.address, place.port});
    }
  }
  return addresses;
}

void Inputs::on_requests(k8s::ApiClient::Report report) {
  if (client_) {
    client_->on_outcome(std::move(report));
  }
}

void Inputs::on_api_servers(std::function<void()> notify) {
  if (client_) {
    client_->on_addresses(std::move(notify));
  }
}

void Inputs::post(k8s::Event event) {
  if (events_) {
    events_->post(std::move(event));
  }
}

void Inputs::remove_startup_taint() {
  if (!client_ || taint_ || options_.startup_taint.empty()) {
    return;
  }
  const auto runtime = k8s::asio_runtime(context_, *client_, std::random_device{}());
  taint_ = std::make_unique<k8s::StartupTaint>(
      runtime, options_.node, options_.startup_taint,
      k8s::StartupTaint::Report{[](const std::string& message) { spdlog::info("{}", message); },
                                [](const std::string& message) { spdlog::warn("{}", message); }});
  taint_->remove();
}

std::vector<k8s::ApiStats> Inputs::stats() const {
  return api_ != nullptr ? api_->stats() : std::vector<k8s::ApiStats>{};
}

}  // namespace lb::agent
