// SPDX-License-Identifier: Apache-2.0
#include "agent/run/api_server_cache.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "agent/base/replace_file.hpp"
#include "k8s/objects/error.hpp"
#include "k8s/objects/host_port.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

/// A name in every API server's certificate, for clients within the cluster.
constexpr std::string_view name_in_cluster = "kubernetes.default.svc";
constexpr std::string_view file_name = "api-servers";

std::vector<std::string> urls_of(const k8s::EndpointSlice& slice) {
  std::vector<std::string> urls;
  for (const auto& port : slice.ports) {
    if (port.name != "https") {
      continue;
    }
    for (const auto& endpoint : slice.endpoints) {
      if (endpoint.ready) {
        urls.push_back("https://" + k8s::host_port(endpoint.address.text(), port.port));
      }
    }
  }
  return urls;
}

}  // namespace

std::vector<k8s::ApiServer> remembered_servers(const std::string& directory,
                                               std::string_view certificate_name) {
  std::vector<k8s::ApiServer> servers;
  if (directory.empty()) {
    return servers;
  }
  std::ifstream file(fs::path(directory) / file_name);
  for (std::string line; std::getline(file, line);) {
    try {
      servers.push_back(k8s::parse_api_server(line));
      servers.back().certificate_name = certificate_name.empty() ? name_in_cluster : certificate_name;
    } catch (const k8s::StartError& error) {
      spdlog::warn("{}/{}: {}", directory, file_name, error.what());
    }
  }
  return servers;
}

void ApiServerCache::see(const k8s::EndpointSlice& slice) {
  if (slice.key.name_space == "default" && slice.service == "kubernetes") {
    urls_[slice.key] = urls_of(slice);
  }
}

void ApiServerCache::forget(const k8s::ObjectKey& slice) { urls_.erase(slice); }

void ApiServerCache::write() {
  std::string text;
  for (const auto& [slice, urls] : urls_) {
    for (const auto& url : urls) {
      text += url + '\n';
    }
  }
  if (directory_.empty() || text.empty() || text == written_) {
    return;
  }
  // Replaces the file atomically: a later start may depend on it.
  std::error_code error;
  fs::create_directories(directory_, error);
  auto failure = replace_file(fs::path(directory_) / file_name, text);
  if (failure.empty()) {
    written_ = std::move(text);
  }
  if (failure != std::exchange(failure_, failure) && !failure.empty()) {
    spdlog::warn("--state: {}; a start that finds the API's ClusterIP unserved will not know its servers",
                 failure);
  }
}

}  // namespace lb::agent
