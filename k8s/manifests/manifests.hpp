// SPDX-License-Identifier: Apache-2.0
// A directory of manifests as a source of objects, watched by inotify.
#pragma once

#include <memory>
#include <string>

#include "k8s/objects/source.hpp"

namespace boost::asio {
class io_context;
}

namespace lb::k8s {

/// Reads *.yaml, *.yml and *.json of one directory (without subdirectories, hidden and temporary files) and
/// reports their objects to `sink`, and every change within 100 ms. Supports ConfigMap volumes, atomic
/// renames and editors' ways of saving. If the directory is removed, its objects stay until it exists again.
/// Not thread-safe; `sink` must outlive the source.
class ManifestSource final : public Source {
 public:
  ManifestSource(boost::asio::io_context& context, std::string path, Sink& sink);
  ~ManifestSource() override;
  ManifestSource(const ManifestSource&) = delete;
  ManifestSource& operator=(const ManifestSource&) = delete;

  /// Reads the directory and reports all of it, then synced(), before it returns; then follows it while the
  /// context runs. Throws StartError if the directory cannot be read or watched. Call once.
  void start() override;

 private:
  class ResourceWatcher;
  std::shared_ptr<ResourceWatcher> watcher_;
};

}  // namespace lb::k8s
