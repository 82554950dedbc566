// Namespaces one after the other, and the iterator in each.
#include "agent/udp_sockets.hpp"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>

namespace lb::agent {
namespace {

using boost::system::error_code;

constexpr std::chrono::milliseconds pause{
    100};                                  // between a backend's end and the look, so that more may come
constexpr std::size_t spaces_a_step = 16;  // an iterator over a namespace's sockets takes some 100 µs

error_code last_error() { return {errno, boost::system::generic_category()}; }

bool is_number(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char each) { return each >= '0' && each <= '9'; });
}

/// Adds the namespace behind a file, unless it is there already or gone.
void add_space(const std::string& file, std::set<std::pair<dev_t, ino_t>>& known,
               std::vector<std::string>& spaces) {
  struct stat status{};
  if (::stat(file.c_str(), &status) == 0 && known.emplace(status.st_dev, status.st_ino).second) {
    spaces.push_back(file);
  }
}

/// All that the iterator writes: a byte a socket.
boost::system::result<std::uint64_t> read_all(int iterator) {
  std::array<char, 4096> buffer{};
  std::uint64_t count = 0;
  ssize_t size = 0;
  while ((size = ::read(iterator, buffer.data(), buffer.size())) > 0 || (size < 0 && errno == EAGAIN)) {
    count += size > 0 ? static_cast<std::uint64_t>(size) : 0;
  }
  if (size < 0) {
    return last_error();
  }
  return count;
}

}  // namespace

std::vector<std::string> network_namespaces() {
  std::set<std::pair<dev_t, ino_t>> known;
  std::vector<std::string> spaces;
  add_space("/proc/thread-self/ns/net", known, spaces);
  std::error_code error;
  for (std::filesystem::directory_iterator at("/run/netns", error), end; !error && at != end;
       at.increment(error)) {
    add_space(at->path().string(), known, spaces);
  }
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    if (is_number(at->path().filename().string())) {
      add_space(at->path().string() + "/ns/net", known, spaces);
    }
  }
  return spaces;
}

// A thread that cannot go back is of no use to anybody.
boost::system::result<std::uint64_t> tell_in(int link, const std::string& space) {
  const maps::Fd own(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  const maps::Fd there(::open(space.c_str(), O_RDONLY | O_CLOEXEC));
  if (!own || !there || ::setns(there.get(), CLONE_NEWNET) != 0) {
    return last_error();
  }
  const maps::Fd iterator(bpf_iter_create(link));
  const auto error = iterator ? error_code() : last_error();
  if (::setns(own.get(), CLONE_NEWNET) != 0) {
    std::terminate();
  }
  if (error) {
    return error;
  }
  return read_all(iterator.get());
}

UdpSockets::UdpSockets(boost::asio::io_context& context, int program, Told told)
    : timer_(context), told_(std::move(told)) {
  if (program >= 0) {
    link_ = maps::Fd(bpf_link_create(program, 0, BPF_TRACE_ITER, nullptr));
  }
}

void UdpSockets::backend_ended() {
  if (!link_ || phase_ == Phase::waiting) {
    return;
  }
  if (phase_ == Phase::running) {
    again_ = true;
    return;
  }
  phase_ = Phase::waiting;
  timer_.expires_after(pause);
  timer_.async_wait([this](const auto& error) {
    if (!error) {
      begin();
    }
  });
}

void UdpSockets::begin() {
  phase_ = Phase::running;
  spaces_ = network_namespaces();
  count_ = 0;
  problem_.clear();
  step();
}

// A namespace that ended meanwhile has no sockets.
void UdpSockets::step() {
  for (std::size_t done = 0; done < spaces_a_step && !spaces_.empty(); ++done) {
    const auto told = tell_in(link_.get(), spaces_.back());
    if (told) {
      count_ += *told;
    } else if (told.error() != boost::system::errc::no_such_file_or_directory) {
      problem_ = fmt::format("{}: {}", spaces_.back(), told.error().message());
    }
    spaces_.pop_back();
  }
  if (spaces_.empty()) {
    finish();
    return;
  }
  boost::asio::post(timer_.get_executor(), [this] { step(); });
}

void UdpSockets::finish() {
  phase_ = Phase::idle;
  told_(count_, problem_);
  if (std::exchange(again_, false)) {
    backend_ended();
  }
}

}  // namespace lb::agent
