// Processes one namespace after the other: runs the iterator, and sock_diag if the iterator only lists
// sockets.
#include "agent/attach/stale_udp_socket_closer.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netns.hpp"
#include "agent/netlink/udp_diag.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

// Delay between a backend's end and the round, which collects further ends.
constexpr std::chrono::milliseconds pause{100};
constexpr std::size_t namespaces_per_step = 16;  // an iterator over a namespace's sockets takes some 100 µs

/// Reads the iterator's output: a byte for each socket that it closed, a cookie for each that it listed.
boost::system::result<std::string> read_all(int iterator) {
  std::array<char, 4096> buffer{};
  std::string written;
  ssize_t size = 0;
  while ((size = ::read(iterator, buffer.data(), buffer.size())) > 0 || (size < 0 && errno == EAGAIN)) {
    written.append(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  }
  if (size < 0) {
    return last_error();
  }
  return written;
}

std::set<std::uint64_t> cookies_in(const std::string& written) {
  std::set<std::uint64_t> cookies;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= written.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t cookie = 0;
    std::memcpy(&cookie, written.data() + at, sizeof(cookie));
    cookies.insert(cookie);
  }
  return cookies;
}

}  // namespace

StaleUdpSocketCloser::StaleUdpSocketCloser(boost::asio::io_context& context, const UdpCleanup& cleanup,
                                           Namespaces namespaces, Report reported)
    : timer_(context), lists_only_(cleanup.destroys < 0), scope_(namespaces), report_(std::move(reported)) {
  if (const int program = lists_only_ ? cleanup.finds : cleanup.destroys; program >= 0) {
    link_ = maps::Fd(bpf_link_create(program, 0, BPF_TRACE_ITER, nullptr));
  }
}

void StaleUdpSocketCloser::check_soon() {
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
      start_round();
    }
  });
}

void StaleUdpSocketCloser::start_round() {
  phase_ = Phase::running;
  namespaces_ = scope_ == Namespaces::all ? network_namespaces() : std::vector<std::string>{own_netns};
  count_ = 0;
  problem_.clear();
  check_next_namespaces();
}

// An iterator covers the sockets of the namespace in which it was created, and so does sock_diag.
boost::system::result<std::uint64_t> StaleUdpSocketCloser::clean_up_in(const std::string& netns) const {
  maps::Fd iterator;
  boost::system::result<maps::Fd> diag = maps::Fd();
  const auto error = in_netns(netns, [&] {
    iterator = maps::Fd(bpf_iter_create(link_.get()));
    const auto failure = iterator ? error_code() : last_error();
    if (lists_only_) {
      diag = open_socket_diag();
    }
    return failure ? failure : diag ? error_code() : diag.error();
  });
  if (error) {
    return error;
  }
  const auto written = read_all(iterator.get());
  if (!written) {
    return written.error();
  }
  if (!lists_only_) {
    return written->size();
  }
  return written->empty() ? 0 : end_udp_sockets(diag->get(), cookies_in(*written));
}

// A namespace that was removed meanwhile has no sockets.
void StaleUdpSocketCloser::check_next_namespaces() {
  for (std::size_t done = 0; done < namespaces_per_step && !namespaces_.empty(); ++done) {
    const auto reported = clean_up_in(namespaces_.back());
    if (reported) {
      count_ += *reported;
    } else if (reported.error() != boost::system::errc::no_such_file_or_directory) {
      problem_ = fmt::format("{}: {}", namespaces_.back(), reported.error().message());
    }
    namespaces_.pop_back();
  }
  if (namespaces_.empty()) {
    finish_round();
    return;
  }
  boost::asio::post(timer_.get_executor(), [this] { check_next_namespaces(); });
}

void StaleUdpSocketCloser::finish_round() {
  phase_ = Phase::idle;
  report_(count_, problem_);
  if (std::exchange(again_, false)) {
    check_soon();
  }
}

}  // namespace lb::agent
