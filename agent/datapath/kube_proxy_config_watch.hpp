// SPDX-License-Identifier: Apache-2.0
// Watches one file by inotify, whether a ConfigMap volume, an editor or `mv` changes it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "agent/options/kube_proxy_config_file.hpp"

namespace lb::agent {

class ConfigWatch {
 public:
  /// Receives the complete new text, or the reason why it cannot be read.
  using Notify = std::function<void(const std::variant<std::string, ConfigRefusal>&)>;

  /// Reports the file's text if it differs from `known`, the text that the caller has, and then each change,
  /// within 100 ms, or within a few seconds if no inotify event reports it. `context` must outlive this.
  ConfigWatch(boost::asio::io_context& context, std::string path, std::string known, Notify notify);
  ~ConfigWatch();
  ConfigWatch(const ConfigWatch&) = delete;
  ConfigWatch& operator=(const ConfigWatch&) = delete;

 private:
  class ResourceWatcher;
  std::shared_ptr<ResourceWatcher> watcher_;
};

}  // namespace lb::agent
