// inotify triggers scans; the scan decides which files to read. The only file of this folder that uses Asio.
#include "k8s/manifests/manifests.hpp"

#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "k8s/manifests/directory.hpp"
#include "k8s/manifests/manifest_set.hpp"
#include "k8s/objects/error.hpp"

namespace lb::k8s {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A burst of events ends when none arrived for this long, or after the longest wait.
constexpr milliseconds debounce_time{5};
constexpr milliseconds max_wait{40};
/// Interval of scans for changes without events: targets of symbolic links, errors that have ended.
constexpr milliseconds rescan_interval{2000};
/// A file that is being written is read only once it is closed, or unchanged for this long.
constexpr milliseconds abandoned{1000};

constexpr std::uint32_t directory_events = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO |
                                           IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |
                                           IN_ATTRIB | IN_ONLYDIR;
constexpr std::uint32_t parent_events = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR;

std::string error_text(int error) { return std::generic_category().message(error); }

std::filesystem::path normal(const std::string& path) {
  auto whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

int new_inotify() {
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    throw StartError(fmt::format(
        "cannot watch directories: {}; raise fs.inotify.max_user_instances by sysctl", error_text(errno)));
  }
  return fd;
}

}  // namespace

class ManifestSource::ResourceWatcher final
    : public FileListener,
      public std::enable_shared_from_this<ManifestSource::ResourceWatcher> {
 public:
  ResourceWatcher(asio::io_context& context, const std::string& path, Sink& sink)
      : path_(normal(path)),
        sink_(sink),
        directory_(path_),
        set_(sink),
        inotify_(context),
        debounce_timer_(context),
        complaint_timer_(context),
        rescan_timer_(context) {}

  void start();

  void text(const std::string& name, std::string_view text) override {
    set_.put(name, text, steady_clock::now());
  }
  void unreadable(const std::string& name, std::string reason) override {
    set_.unreadable(name, std::move(reason), steady_clock::now());
  }
  void gone(const std::string& name) override { set_.erase(name, steady_clock::now()); }

 private:
  [[nodiscard]] int watch();
  void next_events();
  void take_events(std::string_view bytes);
  void take_event(const inotify_event& event, const std::string& name);
  void take_file_event(std::uint32_t mask, const std::string& name);
  void debounce();
  void scan();
  [[nodiscard]] std::error_code check_files();
  void wait_for_complaints();
  void schedule_rescan();

  std::filesystem::path path_;
  Sink& sink_;
  Directory directory_;
  ManifestSet set_;
  asio::posix::stream_descriptor inotify_;
  asio::steady_timer debounce_timer_;
  asio::steady_timer complaint_timer_;
  asio::steady_timer rescan_timer_;
  alignas(inotify_event) std::array<char, 16384> buffer_{};
  int directory_watch_ = -1;
  int parent_watch_ = -1;
  std::set<std::string> changed_;
  std::map<std::string, steady_clock::time_point> being_written_;
  bool unsettled_ = false;
  steady_clock::time_point first_event_;
};

/// Watches the directory that the path names now, and its parent. Returns 0 or an errno.
int ManifestSource::ResourceWatcher::watch() {
  const int fd = inotify_.native_handle();
  const int watch = ::inotify_add_watch(fd, path_.c_str(), directory_events);
  const int error = watch < 0 ? errno : 0;
  if (directory_watch_ >= 0 && directory_watch_ != watch) {
    ::inotify_rm_watch(fd, directory_watch_);
    being_written_.clear();
  }
  directory_watch_ = watch;
  // Without a watch of the parent, a recreated directory is noticed at the next slow scan.
  parent_watch_ = ::inotify_add_watch(fd, path_.parent_path().c_str(), parent_events);
  return error;
}

void ManifestSource::ResourceWatcher::start() {
  inotify_.assign(new_inotify());
  if (const int error = watch(); error == ENOSPC) {
    throw StartError(
        fmt::format("cannot watch {}: raise fs.inotify.max_user_watches by sysctl", path_.string()));
  } else if (error != 0) {
    throw StartError(fmt::format("cannot read the manifests directory {}: {}; name a directory that exists",
                                 path_.string(), error_text(error)));
  }
  if (const auto error = check_files()) {
    throw StartError(fmt::format("cannot read the manifests directory {}: {}; make it readable",
                                 path_.string(), error.message()));
  }
  set_.complaints().report_all(sink_);
  sink_.synced();
  next_events();
  schedule_rescan();
}

void ManifestSource::ResourceWatcher::next_events() {
  inotify_.async_read_some(
      asio::buffer(buffer_),
      [weak = weak_from_this()](const boost::system::error_code& error, std::size_t length) {
        const auto self = weak.lock();
        if (!self || error) {
          return;
        }
        self->take_events({self->buffer_.data(), length});
        self->next_events();
      });
}

void ManifestSource::ResourceWatcher::take_events(std::string_view bytes) {
  while (bytes.size() >= sizeof(inotify_event)) {
    inotify_event event{};
    std::memcpy(&event, bytes.data(), sizeof(event));
    const std::string name(bytes.data() + sizeof(event), ::strnlen(bytes.data() + sizeof(event), event.len));
    take_event(event, name);
    bytes.remove_prefix(sizeof(event) + event.len);
  }
  if (unsettled_) {
    debounce();
  }
}

void ManifestSource::ResourceWatcher::take_event(const inotify_event& event, const std::string& name) {
  bool matters = false;
  if ((event.mask & IN_Q_OVERFLOW) != 0) {
    being_written_.clear();
    matters = true;
  } else if (event.wd == parent_watch_) {
    matters = name == path_.filename();
  } else if (event.wd == directory_watch_) {
    // The kubelet renames "..data" when a ConfigMap changes.
    matters = name.empty() || name.starts_with("..") || is_manifest_name(name);
    take_file_event(event.mask, name);
  }
  if (matters && !unsettled_) {
    unsettled_ = true;
    first_event_ = steady_clock::now();
    sink_.arrived();
  }
}

void ManifestSource::ResourceWatcher::take_file_event(std::uint32_t mask, const std::string& name) {
  if (!is_manifest_name(name)) {
    return;
  }
  changed_.insert(name);
  if ((mask & IN_MODIFY) != 0) {
    being_written_[name] = steady_clock::now();
  } else if ((mask & (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE)) != 0) {
    being_written_.erase(name);
  }
}

void ManifestSource::ResourceWatcher::debounce() {
  debounce_timer_.expires_at(std::min(steady_clock::now() + debounce_time, first_event_ + max_wait));
  debounce_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) {
      self->scan();
    }
  });
}

std::error_code ManifestSource::ResourceWatcher::check_files() {
  const auto now = steady_clock::now();
  std::erase_if(being_written_, [&](const auto& entry) { return now - entry.second > abandoned; });
  std::set<std::string> skipped;
  for (const auto& [name, when] : being_written_) {
    skipped.insert(name);
  }
  std::set<std::string> later;
  std::ranges::set_intersection(changed_, skipped, std::inserter(later, later.end()));
  const auto error = directory_.scan(changed_, skipped, *this);
  if (!error) {
    changed_ = std::move(later);
  }
  set_.apply(steady_clock::now());
  return error;
}

void ManifestSource::ResourceWatcher::scan() {
  if (!std::exchange(unsettled_, false)) {
    sink_.arrived();
  }
  const int watch_error = watch();
  const auto error = check_files();
  std::vector<Complaint> complaints;
  if (error) {
    complaints.push_back(
        {"", path_.string(),
         fmt::format("cannot be read: {}; the last good state of all files stays", error.message())});
  } else if (watch_error != 0) {
    complaints.push_back({"", path_.string(),
                          fmt::format("cannot be watched: {}; scanned every {} s instead",
                                      error_text(watch_error), rescan_interval / std::chrono::seconds(1))});
  }
  set_.complaints().set(path_.string(), std::move(complaints), steady_clock::now());
  wait_for_complaints();
}

void ManifestSource::ResourceWatcher::wait_for_complaints() {
  const auto due = set_.complaints().due();
  if (!due) {
    return;
  }
  complaint_timer_.expires_at(*due);
  complaint_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) {
      self->set_.complaints().report_settled(self->sink_, steady_clock::now());
      self->wait_for_complaints();
    }
  });
}

void ManifestSource::ResourceWatcher::schedule_rescan() {
  rescan_timer_.expires_after(rescan_interval);
  rescan_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) {
      self->scan();
      self->schedule_rescan();
    }
  });
}

ManifestSource::ManifestSource(boost::asio::io_context& context, std::string path, Sink& sink)
    : watcher_(std::make_shared<ResourceWatcher>(context, path, sink)) {}

ManifestSource::~ManifestSource() = default;

void ManifestSource::start() { watcher_->start(); }

}  // namespace lb::k8s
