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
  /// The whole new text, or why there is none.
  using Notify = std::function<void(const std::variant<std::string, ConfigRefusal>&)>;

  /// Reports what differs from `known`, the text that the caller has, and from then on each change, within
  /// 100 ms, or a few seconds where no event reports it. `context` must outlive this.
  ConfigWatch(boost::asio::io_context& context, std::string path, std::string known, Notify notify);
  ~ConfigWatch();
  ConfigWatch(const ConfigWatch&) = delete;
  ConfigWatch& operator=(const ConfigWatch&) = delete;

 private:
  class ResourceWatcher;
  std::shared_ptr<ResourceWatcher> watcher_;
};

}  // namespace lb::agent
