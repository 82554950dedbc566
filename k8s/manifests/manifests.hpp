// A directory of manifests as a source of objects, watched by inotify.
#pragma once

#include <memory>
#include <string>

#include "k8s/objects/source.hpp"

namespace boost::asio {
class io_context;
}

namespace lb::k8s {

/// Reads *.yaml, *.yml and *.json of one directory (not below it; hidden and temporary files are left out)
/// and reports to `sink` their objects and, within 100 ms, every change. ConfigMap volumes, atomic renames
/// and editors' ways of saving are understood. If the directory goes away, its objects stay until it is back
/// and says otherwise. Not for two threads at once; `sink` must outlive the source.
class ManifestSource final : public Source {
 public:
  ManifestSource(boost::asio::io_context& context, std::string path, Sink& sink);
  ~ManifestSource() override;
  ManifestSource(const ManifestSource&) = delete;
  ManifestSource& operator=(const ManifestSource&) = delete;

  /// Reads the directory and reports all of it, then synced(), before it returns; then follows it while the
  /// context runs. Throws StartError if the directory cannot be read or watched. To be called once.
  void start() override;

 private:
  class ResourceWatcher;
  std::shared_ptr<ResourceWatcher> watcher_;
};

}  // namespace lb::k8s
