// SPDX-License-Identifier: Apache-2.0
// The agent's two servers, for probes and for scrapes, and reports while another process holds their ports:
// beside a running kube-proxy the agent serves packets nevertheless.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/listener.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/observe/pages.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// A server and its port.
struct WaitingServer {
  std::string event;    ///< reason of the Event that reports it
  std::string problem;  ///< "cannot listen on 0.0.0.0:10256: Address already in use"
};

class Servers {
 public:
  /// Listens, or throws StartError if the options make a taken port fatal. `opened` is called when a server
  /// listens later. All references must outlive this.
  Servers(boost::asio::io_context& context, const AgentOptions& options, Pages& pages, Metrics& metrics,
          std::function<void()> opened);
  ~Servers() = default;
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  /// All servers, without a problem where one listens.
  [[nodiscard]] std::vector<WaitingServer> all() const;
  [[nodiscard]] std::vector<WaitingServer> waiting() const;
  /// Closes those on kube-proxy's own ports, 10256 and 10249, for which kube-proxy tries each five seconds.
  /// One that nobody has taken after some seconds listens again.
  void leave_to_kube_proxy();
  void resume();

 private:
  struct Server {
    std::string name;
    std::string event;
    std::unique_ptr<Listener> listener;
  };

  void add(std::string name, std::string event, const std::optional<Listen>& listen, HttpHandler handler);
  void report_opened(const std::string& name);

  boost::asio::io_context& context_;
  BindFailure failure_;
  Metrics& metrics_;
  std::function<void()> opened_;
  std::vector<Server> servers_;
};

}  // namespace lb::agent
