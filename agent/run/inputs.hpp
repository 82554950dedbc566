// SPDX-License-Identifier: Apache-2.0
// Creates the source of objects that the options select: a directory of manifests, or the API.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/plan/plan.hpp"
#include "k8s/client/http_client.hpp"
#include "k8s/objects/source.hpp"
#include "k8s/watch/api_source.hpp"
#include "k8s/watch/events.hpp"
#include "k8s/watch/startup_taint.hpp"

namespace lb::agent {

class Inputs {
 public:
  /// Checks everything that needs no network: throws StartError for a directory that cannot be read, an
  /// invalid kubeconfig, or invalid credentials. `context` must outlive this.
  Inputs(boost::asio::io_context& context, const AgentOptions& options);

  /// Starts reporting to `sink`, which must outlive this. Call once.
  void start(k8s::Sink& sink);

  /// The source's name: "the manifests in /etc/sluice" or "the API at https://10.0.0.1:6443".
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Known addresses of the API servers; `notify` is called whenever there are more.
  [[nodiscard]] std::vector<ListeningAddress> api_servers() const;
  void on_api_servers(std::function<void()> notify);
  /// Calls `report` for each request to the API from now on.
  void on_requests(k8s::ApiClient::Report report);
  /// Posts an Event to the API asynchronously, if there is an API.
  void post(k8s::Event event);
  /// Removes the start-up taint that the options name, once the API accepts it. Call when services work;
  /// further calls do nothing.
  void remove_startup_taint();
  /// Statistics of each watched resource; empty without the API.
  [[nodiscard]] std::vector<k8s::ApiStats> stats() const;

 private:
  boost::asio::io_context& context_;
  const AgentOptions& options_;
  std::string text_;
  std::unique_ptr<k8s::ApiClient> client_;    ///< null: manifests
  std::unique_ptr<k8s::EventPoster> events_;  ///< null before start(), and without the API
  std::unique_ptr<k8s::StartupTaint> taint_;  ///< null until the taint must be removed
  std::unique_ptr<k8s::Source> source_;
  const k8s::ApiSource* api_ = nullptr;  ///< source_, if it is an ApiSource
};

}  // namespace lb::agent
