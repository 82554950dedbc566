// SPDX-License-Identifier: Apache-2.0
// By stat(2) alone: access control lists are not read.
#include "agent/run/writable_paths.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "agent/base/escape.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

enum class Sticky : std::uint8_t { counts, is_enough };

/// In a sticky directory, others may add files and not replace any.
bool is_writable_by_all(const fs::path& path, Sticky sticky) {
  struct stat status{};
  const bool writable = ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0;
  return writable && (sticky == Sticky::counts || (status.st_mode & S_ISVTX) == 0);
}

/// A directory above this file, of those that every user may write, where its links lead. Empty: none.
fs::path weak_place(const fs::path& path) {
  std::error_code error;
  const auto real = fs::canonical(path, error);
  for (auto at = real; !error && at != at.parent_path(); at = at.parent_path()) {
    if (is_writable_by_all(at.parent_path(), Sticky::is_enough)) {
      return at.parent_path();
    }
  }
  return {};
}

/// The first of these that every user may write: the path, a file in it, a directory above these, where a
/// link leads, too. Empty: none.
fs::path weak_part(const fs::path& path) {
  if (is_writable_by_all(path, Sticky::counts)) {
    return path;
  }
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (is_writable_by_all(at->path(), Sticky::counts)) {
      return at->path();
    }
    std::error_code unknown;  // it may be gone by now
    const auto place = at->is_symlink(unknown) ? weak_place(at->path()) : fs::path();
    if (!place.empty()) {
      return place;
    }
  }
  return weak_place(path);
}

}  // namespace

std::vector<std::string> writable_by_all(const AgentOptions& options) {
  struct Named {
    const char* what;
    const std::string& path;
  };
  std::vector<std::string> found;
  for (const auto& [what, path] :
       {Named{"manifests", options.manifests}, Named{"state", options.state},
        Named{"cluster secret", options.cluster_secret}, Named{"configuration", options.config_file.path},
        Named{"kubeconfig", options.kubeconfig}}) {
    const auto weak = path.empty() ? fs::path() : weak_part(path);
    if (!weak.empty()) {
      found.push_back(fmt::format(
          "{}: every user of this node may write to {}, and so decide what is served: 'chmod o-w {}'", what,
          escaped(weak.string()), escaped(weak.string())));
    }
  }
  return found;
}

}  // namespace lb::agent
