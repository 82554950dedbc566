// SPDX-License-Identifier: Apache-2.0
// inotify triggers scans; the scan decides which files to read. What is large is read and parsed in a thread,
// and its changes are reported in turns, so that other work goes on. The only file of this folder that uses
// Asio.
#include "k8s/manifests/manifests.hpp"

#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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

/// Files of so many bytes together are read and parsed in a thread: some milliseconds of work.
constexpr std::uint64_t large = 128U << 10U;
/// Objects that one turn visits: a millisecond or two.
constexpr std::size_t objects_a_turn = 500;

constexpr std::uint32_t directory_events = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO |
                                           IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |
                                           IN_ATTRIB | IN_ONLYDIR;
constexpr std::uint32_t parent_events = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR;

std::string error_text(int error) { return std::generic_category().message(error); }

std::filesystem::path normal(const std::string& path) {
  auto whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Reads and parses files in a thread of its own, until the result is taken or this ends. Throws
/// std::system_error if the node has no thread left.
class Parsing final : public FileListener {
 public:
  struct Result {
    std::deque<ParsedManifest> parsed;
    std::map<std::string, std::string> unreadable;  ///< with reasons
    std::deque<std::string> gone;

    [[nodiscard]] bool empty() const { return parsed.empty() && unreadable.empty() && gone.empty(); }
  };

  /// `directory` must outlive this, and be left alone meanwhile. `done` is called in the thread, as its last
  /// act.
  Parsing(Directory& directory, std::vector<std::string> files, std::function<void()> done)
      : thread_([this, &directory, files = std::move(files), done = std::move(done)] {
          for (const auto& name : files) {
            if (!stopped_) {
              directory.read(name, *this);
            }
          }
          done();
        }) {}
  Parsing(const Parsing&) = delete;
  Parsing& operator=(const Parsing&) = delete;
  ~Parsing() override {
    stopped_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  /// After `done`.
  Result take() {
    thread_.join();
    return std::move(result_);
  }

  void text(const std::string& name, std::string_view text) override {
    result_.parsed.push_back(parse_manifest(name, text, *decoder_, stopped_));
  }
  void unreadable(const std::string& name, std::string reason) override {
    result_.unreadable[name] = std::move(reason);
  }
  void gone(const std::string& name) override { result_.gone.push_back(name); }

 private:
  std::unique_ptr<Decoder> decoder_ = json_decoder(Origin::manifest);
  std::atomic<bool> stopped_ = false;
  Result result_;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace

class ManifestSource::ResourceWatcher final
    : public FileListener,
      public std::enable_shared_from_this<ManifestSource::ResourceWatcher> {
 public:
  ResourceWatcher(asio::io_context& context, const std::string& path, Sink& sink)
      : context_(context),
        path_(normal(path)),
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
  [[nodiscard]] int open_inotify();
  [[nodiscard]] int watch();
  void next_events();
  void take_events(std::string_view bytes);
  void take_event(const inotify_event& event, const std::string& name);
  void take_file_event(std::uint32_t mask, const std::string& name);
  void debounce();
  void scan();
  [[nodiscard]] std::error_code check_files();
  [[nodiscard]] std::set<std::string> files_being_written();
  [[nodiscard]] Directory::Found look();
  void read(Directory::Found found);
  void parsed();
  [[nodiscard]] bool take_over_some();
  void apply_turn();
  void complain_of(const std::error_code& error, int watch_error);
  void wait_for_complaints();
  void schedule_rescan();

  asio::io_context& context_;
  std::filesystem::path path_;
  Sink& sink_;
  Directory directory_;
  ManifestSet set_;
  std::unique_ptr<Parsing> parsing_;  ///< nullptr: no thread runs
  Parsing::Result ready_;             ///< what the set does not have yet
  std::string no_thread_;             ///< why the last one could not be started
  bool applying_ = false;             ///< turns are left
  bool scan_again_ = false;           ///< something has changed meanwhile
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

/// Returns 0 or an errno.
int ManifestSource::ResourceWatcher::open_inotify() {
  if (inotify_.is_open()) {
    return 0;
  }
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  inotify_.assign(fd);
  next_events();
  return 0;
}

/// Watches the directory that the path names now, and its parent. Returns 0 or an errno: without inotify, as
/// where a user's programs have all instances or watches, the scans remain.
int ManifestSource::ResourceWatcher::watch() {
  if (const int error = open_inotify(); error != 0) {
    return error;
  }
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
  const int watch_error = watch();
  if (const auto error = check_files()) {
    throw StartError(fmt::format(
        "cannot read the manifests directory {}: {}; name a directory that exists and can be read",
        path_.string(), error.message()));
  }
  complain_of({}, watch_error);
  set_.complaints().report_all(sink_);
  sink_.synced();
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

std::set<std::string> ManifestSource::ResourceWatcher::files_being_written() {
  const auto now = steady_clock::now();
  std::erase_if(being_written_, [&](const auto& entry) { return now - entry.second > abandoned; });
  std::set<std::string> files;
  for (const auto& [name, when] : being_written_) {
    files.insert(name);
  }
  return files;
}

Directory::Found ManifestSource::ResourceWatcher::look() {
  const auto skipped = files_being_written();
  std::set<std::string> later;
  std::ranges::set_intersection(changed_, skipped, std::inserter(later, later.end()));
  auto found = directory_.look(changed_, skipped);
  if (!found.error) {
    changed_ = std::move(later);
  }
  return found;
}

/// At the start: all in one step.
std::error_code ManifestSource::ResourceWatcher::check_files() {
  const auto error = directory_.scan(changed_, files_being_written(), *this);
  set_.apply(steady_clock::now());
  return error;
}

void ManifestSource::ResourceWatcher::scan() {
  if (parsing_ || applying_) {
    scan_again_ = true;
    return;
  }
  if (!std::exchange(unsettled_, false)) {
    sink_.arrived();
  }
  const int watch_error = watch();
  auto found = look();
  const auto error = found.error;
  read(std::move(found));
  complain_of(error, watch_error);
  wait_for_complaints();
}

void ManifestSource::ResourceWatcher::read(Directory::Found found) {
  no_thread_.clear();
  ready_.gone.assign(found.gone.begin(), found.gone.end());
  if (found.bytes < large && found.changed.size() < objects_a_turn) {
    for (const auto& name : found.changed) {
      directory_.read(name, *this);
    }
    return apply_turn();
  }
  try {
    parsing_ = std::make_unique<Parsing>(directory_, found.changed, [this, weak = weak_from_this()] {
      asio::post(context_, [weak] {
        if (const auto self = weak.lock()) {
          self->parsed();
        }
      });
    });
  } catch (const std::system_error& error) {
    // All the node's threads or processes are in use: the next scan tries again.
    no_thread_ = error.code().message();
    changed_.insert(found.changed.begin(), found.changed.end());
    apply_turn();
  }
}

void ManifestSource::ResourceWatcher::parsed() {
  auto result = std::exchange(parsing_, nullptr)->take();
  result.gone.insert(result.gone.end(), ready_.gone.begin(), ready_.gone.end());
  ready_ = std::move(result);
  apply_turn();
}

/// Hands some of the files that are ready to the set. Returns whether more are.
bool ManifestSource::ResourceWatcher::take_over_some() {
  const auto now = steady_clock::now();
  for (std::size_t files = 0; files < objects_a_turn && !ready_.empty(); ++files) {
    if (!ready_.gone.empty()) {
      set_.erase(ready_.gone.front(), now);
      ready_.gone.pop_front();
    } else if (!ready_.parsed.empty()) {
      set_.put(std::move(ready_.parsed.front()), now);
      ready_.parsed.pop_front();
    } else {
      auto first = ready_.unreadable.extract(ready_.unreadable.begin());
      set_.unreadable(first.key(), std::move(first.mapped()), now);
    }
  }
  return !ready_.empty();
}

void ManifestSource::ResourceWatcher::apply_turn() {
  applying_ = take_over_some() || set_.apply_some(steady_clock::now(), objects_a_turn);
  if (applying_) {
    return asio::post(context_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->apply_turn();
      }
    });
  }
  wait_for_complaints();
  if (std::exchange(scan_again_, false)) {
    scan();
  }
}

void ManifestSource::ResourceWatcher::complain_of(const std::error_code& error, int watch_error) {
  std::vector<Complaint> complaints;
  if (error) {
    complaints.push_back(
        {"", path_.string(),
         fmt::format("cannot be read: {}; the last good state of all files stays", error.message())});
  } else if (!no_thread_.empty()) {
    complaints.push_back(
        {"", path_.string(),
         fmt::format("no thread can be started to read what changed: {}; tried again every {} s", no_thread_,
                     rescan_interval / std::chrono::seconds(1))});
  } else if (watch_error != 0) {
    complaints.push_back(
        {"", path_.string(),
         fmt::format("cannot be watched: {}; scanned every {} s instead (see fs.inotify.max_user_instances "
                     "and max_user_watches)",
                     error_text(watch_error), rescan_interval / std::chrono::seconds(1))});
  }
  set_.complaints().set(path_.string(), std::move(complaints), steady_clock::now());
}

void ManifestSource::ResourceWatcher::wait_for_complaints() {
  const auto due = set_.complaints().due();
  if (!due) {
    return;
  }
  complaint_timer_.expires_at(*due);
  complaint_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) {
      self->set_.complaints().report_settled(self->sink_, steady_clock::now(), objects_a_turn);
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
