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
constexpr std::chrono::milliseconds quiet_time{50};
/// Interval for changes without events: a link to another directory, a replaced directory, a system without
/// free inotify watches.
constexpr std::chrono::seconds slow_look{5};

constexpr std::uint32_t events = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

class ConfigWatch::ResourceWatcher final : public std::enable_shared_from_this<ResourceWatcher> {
 public:
  ResourceWatcher(asio::io_context& context, std::string path, std::string known, Notify notify)
      : path_(std::move(path)),
        known_(std::move(known)),
        notify_(std::move(notify)),
        inotify_(context),
        quiet_timer_(context),
        slow_timer_(context) {}

  void start() {
    if (const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC); fd >= 0) {
      inotify_.assign(fd);
      next_events();
    }
    watch();
    look_after(quiet_time);
    wait_for_slow_look();
  }

 private:
  /// Watches the directory that the path names now. If that fails, the slow checks remain.
  void watch() {
    const auto directory = std::filesystem::absolute(path_).parent_path();
    if (inotify_.is_open()) ::inotify_add_watch(inotify_.native_handle(), directory.c_str(), events);
  }

  void next_events() {
    inotify_.async_read_some(asio::buffer(buffer_),
                             [weak = weak_from_this()](const auto& error, std::size_t) {
                               const auto self = weak.lock();
                               if (!self || error) return;
                               self->look_after(quiet_time);
                               self->next_events();
                             });
  }

  void look_after(std::chrono::milliseconds wait) {
    quiet_timer_.expires_after(wait);
    quiet_timer_.async_wait([weak = weak_from_this()](const auto& error) {
      if (const auto self = weak.lock(); self && !error) self->look();
    });
  }

  void wait_for_slow_look() {
    slow_timer_.expires_after(slow_look);
    slow_timer_.async_wait([weak = weak_from_this()](const auto& error) {
      const auto self = weak.lock();
      if (!self || error) return;
      self->watch();
      self->look();
      self->wait_for_slow_look();
    });
  }

  void look() {
    auto found = read_config_file(path_);
    if (found == known_) return;
    known_ = std::move(found);
    notify_(known_);
  }

  std::string path_;
  std::variant<std::string, ConfigRefusal> known_;
  Notify notify_;
  asio::posix::stream_descriptor inotify_;
  asio::steady_timer quiet_timer_;
  asio::steady_timer slow_timer_;
  std::array<char, 4096> buffer_{};  ///< content is ignored
};

ConfigWatch::ConfigWatch(asio::io_context& context, std::string path, std::string known, Notify notify)
    : watcher_(
          std::make_shared<ResourceWatcher>(context, std::move(path), std::move(known), std::move(notify))) {
  watcher_->start();
}

ConfigWatch::~ConfigWatch() = default;

}  // namespace lb::agent
