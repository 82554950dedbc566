// SPDX-License-Identifier: Apache-2.0
// Scans a directory of manifests for files that are new, changed or deleted since the last scan. No inotify.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lb::k8s {

class FileListener {
 public:
  virtual ~FileListener() = default;
  virtual void text(const std::string& name, std::string_view text) = 0;
  virtual void unreadable(const std::string& name, std::string reason) = 0;
  virtual void gone(const std::string& name) = 0;
};

/// Whether a file of this name is a manifest: *.yaml, *.yml, *.json, not hidden.
[[nodiscard]] bool is_manifest_name(std::string_view name);

class Directory {
 public:
  /// Larger files count as unreadable.
  static constexpr std::size_t max_bytes = 256U << 20U;

  explicit Directory(std::string path) : path_(std::move(path)) {}

  /// The result of a look at the directory.
  struct Found {
    std::error_code error;             ///< the directory itself cannot be read; then nothing else is known
    std::vector<std::string> gone;     ///< files that were there before
    std::vector<std::string> changed;  ///< files to read
    std::uint64_t bytes = 0;           ///< of these
  };
  /// Finds what has changed. Files in `changed` count as changed in any case; those in `skipped` are left out
  /// this time.
  [[nodiscard]] Found look(const std::set<std::string>& changed, const std::set<std::string>& skipped);
  /// Reads a file, and reports it as one of three.
  void read(const std::string& name, FileListener& listener);
  /// Both: looks, and reports all changes. Returns the look's error.
  [[nodiscard]] std::error_code scan(const std::set<std::string>& changed,
                                     const std::set<std::string>& skipped, FileListener& listener);

 private:
  /// File attributes that differ whenever the contents do, if the file was unmodified for a moment before.
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
  void remember(const std::string& name, const struct stat& status);
  [[nodiscard]] std::vector<std::string> forget_missing(const std::set<std::string>& present);

  std::string path_;
  std::map<std::string, Identity> known_;  ///< of files that were settled when read, or refused by their size
  std::set<std::string> reported_;
};

}  // namespace lb::k8s
