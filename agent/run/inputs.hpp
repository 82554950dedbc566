// Creates the source of objects that the options ask for: a directory of manifests or the API.
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
  /// Checks all that can be checked without the network: throws StartError for a directory that cannot be
  /// read, a kubeconfig that cannot be used, credentials that are none. `context` must outlive this.
  Inputs(boost::asio::io_context& context, const AgentOptions& options);

  /// Begins to report to `sink`, which must outlive this. To be called once.
  void start(k8s::Sink& sink);

  /// "the manifests in /etc/sluice" or "the API at https://10.0.0.1:6443".
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Where the API servers are, as far as is known; `notify` is called whenever there are more.
  [[nodiscard]] std::vector<ListeningAddress> api_servers() const;
  void on_api_servers(std::function<void()> notify);
  /// Calls `report` for each request to the API from now on.
  void on_requests(k8s::ApiClient::Report report);
  /// Posts it to the API, if there is one, at some time.
  void post(k8s::Event event);
  /// Removes the start-up taint that the options name, once and whenever the API allows it. To be called when
  /// services work; again does nothing.
  void remove_startup_taint();
  /// Of each watched resource; none without the API.
  [[nodiscard]] std::vector<k8s::ApiStats> stats() const;

 private:
  boost::asio::io_context& context_;
  const AgentOptions& options_;
  std::string text_;
  std::unique_ptr<k8s::ApiClient> client_;    ///< null: manifests
  std::unique_ptr<k8s::EventPoster> events_;  ///< null until start(), and without the API
  std::unique_ptr<k8s::StartupTaint> taint_;  ///< null until it is to go
  std::unique_ptr<k8s::Source> source_;
  const k8s::ApiSource* api_ = nullptr;  ///< the source, if it is one
};

}  // namespace lb::agent
