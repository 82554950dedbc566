// SPDX-License-Identifier: Apache-2.0
// Events only trigger reading: the text decides whether anything has changed. The directory is watched,
// because a ConfigMap volume never writes the file: it renames a symbolic link in the file's path.
#include "agent/datapath/kube_proxy_config_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <utility>

namespace lb::agent {
namespace {

namespace asio = boost::asio;

/// A burst of events ends when none arrived for this long.
constexpr std::chrono::milliseconds debounce_time{50};
/// Interval for changes without events: a link to another directory, a replaced directory, a system without
/// free inotify watches.
constexpr std::chrono::seconds recheck_interval{5};

constexpr std::uint32_t events = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

class ConfigWatch::ResourceWatcher final : public std::enable_shared_from_this<ResourceWatcher> {
 public:
  ResourceWatcher(asio::io_context& context, std::string path, std::string known, Notify notify)
      : path_(std::filesystem::absolute(path).string()),  // now: the working directory may be removed
        known_(std::move(known)),
        notify_(std::move(notify)),
        inotify_(context),
        debounce_timer_(context),
        recheck_timer_(context) {}

  void start() {
    if (const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC); fd >= 0) {
      inotify_.assign(fd);
      next_events();
    }
    watch();
    check_after(debounce_time);
    schedule_recheck();
  }

 private:
  /// Watches the directory that the path names now. If that fails, the slow checks remain.
  void watch() {
    const auto directory = std::filesystem::absolute(path_).parent_path();
    if (inotify_.is_open()) {
      ::inotify_add_watch(inotify_.native_handle(), directory.c_str(), events);
    }
  }

  void next_events() {
    inotify_.async_read_some(asio::buffer(buffer_),
                             [weak = weak_from_this()](const auto& error, std::size_t) {
                               const auto self = weak.lock();
                               if (!self || error) {
                                 return;
                               }
                               self->check_after(debounce_time);
                               self->next_events();
                             });
  }

  void check_after(std::chrono::milliseconds wait) {
    debounce_timer_.expires_after(wait);
    debounce_timer_.async_wait([weak = weak_from_this()](const auto& error) {
      if (const auto self = weak.lock(); self && !error) {
        self->check();
      }
    });
  }

  void schedule_recheck() {
    recheck_timer_.expires_after(recheck_interval);
    recheck_timer_.async_wait([weak = weak_from_this()](const auto& error) {
      const auto self = weak.lock();
      if (!self || error) {
        return;
      }
      self->watch();
      self->check();
      self->schedule_recheck();
    });
  }

  void check() {
    auto found = read_config_file(path_);
    if (found == known_) {
      return;
    }
    known_ = std::move(found);
    notify_(known_);
  }

  std::string path_;
  std::variant<std::string, ConfigRefusal> known_;
  Notify notify_;
  asio::posix::stream_descriptor inotify_;
  asio::steady_timer debounce_timer_;
  asio::steady_timer recheck_timer_;
  std::array<char, 4096> buffer_{};  ///< content is ignored
};

ConfigWatch::ConfigWatch(asio::io_context& context, std::string path, std::string known, Notify notify)
    : watcher_(
          std::make_shared<ResourceWatcher>(context, std::move(path), std::move(known), std::move(notify))) {
  watcher_->start();
}

ConfigWatch::~ConfigWatch() = default;

}  // namespace lb::agent
