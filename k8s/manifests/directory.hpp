// Scans a directory of manifests: which files are new, changed or gone since the last scan. No events here.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace lb::k8s {

class FileListener {
 public:
  virtual ~FileListener() = default;
  virtual void text(const std::string& name, std::string_view text) = 0;
  virtual void unreadable(const std::string& name, std::string reason) = 0;
  virtual void gone(const std::string& name) = 0;
};

/// Whether a file of this name is a manifest: *.yaml, *.yml, *.json, but no hidden file.
[[nodiscard]] bool is_manifest_name(std::string_view name);

class Directory {
 public:
  /// Larger files are unreadable.
  static constexpr std::size_t most_bytes = 256U << 20U;

  explicit Directory(std::string path) : path_(std::move(path)) {}

  /// Reports all changes. Files named in `changed` are read even if they look the same; those in `skipped`
  /// are left for another time. An error means that the directory itself cannot be read; then nothing is
  /// reported.
  [[nodiscard]] std::error_code look(const std::set<std::string>& changed,
                                     const std::set<std::string>& skipped, FileListener& listener);

 private:
  /// Changes whenever the contents do, if they have rested for a moment.
  struct Identity {
    dev_t device;
    ino_t file;
    off_t size;
    std::int64_t modified;  ///< ns
    std::int64_t changed;   ///< ns
    bool operator==(const Identity&) const = default;
  };

  static Identity identity(const struct stat& status);
  static bool is_settled(const Identity& identity);
  [[nodiscard]] bool has_changed(const std::string& name) const;
  void read(const std::string& name, FileListener& listener);
  void forget_missing(const std::set<std::string>& present, FileListener& listener);

  std::string path_;
  std::map<std::string, Identity> known_;  ///< of files that were read after they had rested
  std::set<std::string> reported_;
};

}  // namespace lb::k8s
