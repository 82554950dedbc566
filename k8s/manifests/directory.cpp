// SPDX-License-Identifier: Apache-2.0
// Lists, compares and reads files. Every failure is reported as an unreadable file, and retried at the next
// scan.
#include "k8s/manifests/directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>

namespace lb::k8s {
namespace {

/// Timestamps have the resolution of the timer tick: a file written just now can be modified again without a
/// new time.
constexpr std::chrono::nanoseconds rest = std::chrono::milliseconds(50);

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

std::string error_text(int error) { return std::generic_category().message(error); }

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool status(struct stat& out) const { return fd_ >= 0 && ::fstat(fd_, &out) == 0; }

  /// Reads the whole file. Returns 0 or an errno.
  [[nodiscard]] int read_all(std::string& out) const {
    std::size_t length = 0;
    for (;;) {
      if (length == out.size()) {
        out.resize(length + (64U << 10U));
      }
      const auto got = ::read(fd_, out.data() + length, out.size() - length);
      if (got < 0 && errno != EINTR) {
        return errno;
      }
      if (got == 0 || length > Directory::max_bytes) {
        out.resize(length);
        return 0;
      }
      length += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
  }

 private:
  int fd_;
};

}  // namespace

bool is_manifest_name(std::string_view name) {
  return !name.starts_with('.') &&
         (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
}

Directory::Identity Directory::identity(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

bool Directory::is_settled(const Identity& identity) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return now - std::chrono::nanoseconds(identity.changed) > rest;
}

void Directory::read(const std::string& name, FileListener& listener) {
  const auto path = path_ + "/" + name;
  known_.erase(name);
  const OpenFile file(path);
  struct stat status{};
  if (!file.status(status)) {
    listener.unreadable(name, "cannot be opened: " + error_text(errno));
    return;
  }
  if (S_ISDIR(status.st_mode)) {
    listener.gone(name);
    return;
  }
  if (!S_ISREG(status.st_mode)) {
    listener.unreadable(name, "is not a regular file");
    return;
  }
  // The size is looked at first, and a refused file is not opened again until it changes.
  if (status.st_size > static_cast<off_t>(max_bytes)) {
    remember(name, status);
    listener.unreadable(name, fmt::format("is larger than {} MiB", max_bytes >> 20U));
    return;
  }
  std::string text(static_cast<std::size_t>(std::min<off_t>(status.st_size, max_bytes)) + 1, '\0');
  if (const int error = file.read_all(text); error != 0) {
    listener.unreadable(name, "cannot be read: " + error_text(error));
    return;
  }
  if (text.size() > max_bytes) {  // it grew meanwhile
    listener.unreadable(name, fmt::format("is larger than {} MiB", max_bytes >> 20U));
    return;
  }
  remember(name, status);
  listener.text(name, text);
}

void Directory::remember(const std::string& name, const struct stat& status) {
  if (is_settled(identity(status))) {
    known_.insert_or_assign(name, identity(status));
  }
}

std::vector<std::string> Directory::forget_missing(const std::set<std::string>& present) {
  std::vector<std::string> gone;
  std::ranges::set_difference(reported_, present, std::back_inserter(gone));
  for (const auto& name : gone) {
    known_.erase(name);
    reported_.erase(name);
  }
  return gone;
}

Directory::Found Directory::look(const std::set<std::string>& changed, const std::set<std::string>& skipped) {
  Found found;
  std::set<std::string> present;
  std::filesystem::directory_iterator entry(path_, found.error);
  for (; !found.error && entry != std::filesystem::directory_iterator(); entry.increment(found.error)) {
    if (auto name = entry->path().filename().string(); is_manifest_name(name)) {
      present.insert(std::move(name));
    }
  }
  if (found.error) {
    return found;
  }
  found.gone = forget_missing(present);
  for (const auto& name : present) {
    if (!skipped.contains(name) && (changed.contains(name) || has_changed(name))) {
      struct stat status{};
      const bool readable = ::stat((path_ + "/" + name).c_str(), &status) == 0 && S_ISREG(status.st_mode);
      // A file of procfs or sysfs says that it is empty, whatever can be read from it.
      if (readable) {
        found.bytes += status.st_size > 0 ? static_cast<std::uint64_t>(status.st_size) : max_bytes;
      }
      found.changed.push_back(name);
    }
  }
  reported_.insert(found.changed.begin(), found.changed.end());
  return found;
}

std::error_code Directory::scan(const std::set<std::string>& changed, const std::set<std::string>& skipped,
                                FileListener& listener) {
  const auto found = look(changed, skipped);
  for (const auto& name : found.gone) {
    listener.gone(name);
  }
  for (const auto& name : found.changed) {
    read(name, listener);
  }
  return found.error;
}

bool Directory::has_changed(const std::string& name) const {
  const auto known = known_.find(name);
  struct stat status{};
  if (known == known_.end() || ::stat((path_ + "/" + name).c_str(), &status) != 0) {
    return true;
  }
  return identity(status) != known->second;
}

}  // namespace lb::k8s
