// SPDX-License-Identifier: Apache-2.0
// Passes over storage. sock_diag names the files of what is found; what nobody could connect again is ended,
// in each namespace by sock_diag, then by the iterator over its sockets.
#include "agent/attach/stale_udp_sockets.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/socket_holders.hpp"
#include "agent/netlink/udp_diag.hpp"
#include "agent/programs/map_iterator.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using boost::system::result;

/// What one iterator may list: 4.5 MB. The next pass lists the rest.
constexpr std::size_t most_in_a_pass = 65536;
/// How often a round connects one socket: its next backend may be gone, too. Then it is ended.
constexpr unsigned most_tries = 3;
/// A process can have a socket found in each pass. The rest waits for the next round.
constexpr std::uint64_t most_passes = 64;
/// What one namespace may fill of a pass.
constexpr std::size_t most_in_a_namespace = 8192;
/// The kernel's own buffer. Where a read ends, the next one walks to again.
constexpr std::size_t read_size = std::size_t{32} * 1024;

/// Reads an iterator's output to its end, or until `take` returns false.
template <class Take>
error_code read_all(int iterator, Take take) {
  std::vector<char> buffer(read_size);
  ssize_t size = 0;
  while ((size = ::read(iterator, buffer.data(), buffer.size())) > 0 ||
         (size < 0 && (errno == EAGAIN || errno == EINTR))) {
    if (size > 0 && !take(buffer.data(), static_cast<std::size_t>(size))) {
      return {};
    }
  }
  return size < 0 ? last_error() : error_code();
}

result<maps::Fd> open_diag_in(const std::string& netns) {
  result<maps::Fd> diag = maps::Fd();
  const auto error = in_netns(netns, [&] {
    diag = open_socket_diag();
    return diag ? error_code() : diag.error();
  });
  if (error) {
    return error;
  }
  return diag;
}

/// An iterator over the sockets of that namespace: it covers those of the one in which it was created.
result<maps::Fd> iterate_in(const std::string& netns, int link) {
  maps::Fd iterator;
  const auto error = in_netns(netns, [&] {
    iterator = maps::Fd(bpf_iter_create(link));
    return iterator ? error_code() : last_error();
  });
  if (error) {
    return error;
  }
  return iterator;
}

}  // namespace

/// The namespaces of this machine in one pass, listed when another than our own is first asked for.
class NetnsFiles {
 public:
  explicit NetnsFiles(const Netns& own) : own_(own) {}

  [[nodiscard]] const Netns& own() const noexcept { return own_; }
  /// Our own first.
  const std::vector<Netns>& all() {
    if (!all_) {
      all_ = network_namespaces();
    }
    return *all_;
  }

  /// Null: neither a process nor a name leads there.
  const std::string* find(std::uint64_t inode) {
    if (inode == own_.inode) {
      return &own_.file;
    }
    if (files_.empty()) {
      for (const auto& netns : all()) {
        files_.emplace(netns.inode, &netns.file);
      }
    }
    const auto at = files_.find(inode);
    return at == files_.end() ? nullptr : at->second;
  }

 private:
  const Netns& own_;
  std::optional<std::vector<Netns>> all_;
  std::unordered_map<std::uint64_t, const std::string*> files_;  ///< by inode
};

StaleUdpSockets::StaleUdpSockets(const UdpCleanup& cleanup, Namespaces namespaces)
    : scope_(namespaces), reconnects_(cleanup.reconnects), ends_by_diag_(cleanup.ends_by_diag) {
  if (cleanup.destroys >= 0) {
    walker_ = maps::Fd(bpf_link_create(cleanup.destroys, 0, BPF_TRACE_ITER, nullptr));
  }
  if (cleanup.finds >= 0 && (walker_ || ends_by_diag_ || reconnects_)) {
    finder_ = link_iterator(cleanup.finds, cleanup.sockets);
  } else if (cleanup.lists >= 0) {
    lister_ = maps::Fd(bpf_link_create(cleanup.lists, 0, BPF_TRACE_ITER, nullptr));
  }
}

UdpRound StaleUdpSockets::run(const std::stop_token& stop) const {
  UdpRound round;
  Tries tries;
  const auto own = network_namespace();
  for (bool more = true; more && !stop.stop_requested();) {
    round.left = 0;
    round.problem.clear();
    NetnsFiles files(own);
    auto lost = find(files);
    ++round.passes;
    if (!lost) {
      round.problem = lost.error().message();
      break;
    }
    const auto reconnected = reconnect_all(*lost, files, tries, stop, round);
    const auto ended = end_all(*lost, files, round);
    round.reconnected += reconnected;
    round.ended += ended;
    more = reconnected + ended > 0;
    if (more && round.passes == most_passes) {
      round.problem = "some lose their backend again and again";
      break;
    }
  }
  return round;
}

result<StaleUdpSockets::LostIn> StaleUdpSockets::find(NetnsFiles& files) const {
  const auto& own = files.own();
  LostIn lost;
  error_code error;
  if (finder_) {
    const maps::Fd iterator(bpf_iter_create(finder_.get()));
    error = iterator ? take_all(iterator.get(), own.inode, lost) : last_error();
  } else if (scope_ == Namespaces::own) {
    error = find_in(own, lost);
  } else {
    for (const auto& netns : files.all()) {
      const auto problem = find_in(netns, lost);
      if (netns.inode == own.inode) {
        error = problem;  // others are gone, or closed to us, as `status` says
      }
    }
  }
  if (error) {
    return error;
  }
  return lost;
}

error_code StaleUdpSockets::find_in(const Netns& netns, LostIn& lost) const {
  const auto iterator = iterate_in(netns.file, lister_.get());
  return iterator ? take_all(iterator->get(), netns.inode, lost) : iterator.error();
}

error_code StaleUdpSockets::take_all(int iterator, std::uint64_t own, LostIn& lost) const {
  std::size_t count = 0;
  return read_all(iterator, [&](const char* written, std::size_t size) {
    for (std::size_t at = 0; at + sizeof(lb_lost_socket) <= size; at += sizeof(lb_lost_socket)) {
      lb_lost_socket socket{};
      std::memcpy(&socket, written + at, sizeof(socket));
      if (scope_ != Namespaces::all && socket.netns != own) {
        continue;
      }
      auto& here = lost[socket.netns];
      if (here.size() >= most_in_a_namespace) {
        continue;
      }
      here.push_back(socket);
      ++count;
    }
    return count < most_in_a_pass;
  });
}

// Takes out of `lost` what it connects.
std::uint64_t StaleUdpSockets::reconnect_all(LostIn& lost, NetnsFiles& files, Tries& tries,
                                             const std::stop_token& stop, UdpRound& round) const {
  if (!reconnects_) {
    return 0;
  }
  SocketsByInode sockets;
  std::set<std::uint64_t> namespaces;
  for (const auto& [inode, some] : lost) {
    const auto* file = files.find(inode);
    if (file == nullptr) {
      continue;
    }
    ++round.entered;
    namespaces.insert(inode);
    const auto diag = open_diag_in(*file);
    for (const auto& socket : some) {
      if (socket.served != LB_YES || ++tries[socket.cookie] > most_tries) {
        continue;
      }
      const auto found = diag ? udp_socket_inode(diag->get(), socket) : diag.error();
      if (found) {
        sockets.emplace(*found, socket);
      }
    }
  }
  if (sockets.empty()) {
    return 0;
  }
  const auto connected = reconnect(std::move(sockets), namespaces, stop);
  for (auto& [inode, some] : lost) {
    std::erase_if(some, [&](const auto& socket) { return connected.contains(socket.cookie); });
  }
  return connected.size();
}

std::uint64_t StaleUdpSockets::end_all(const LostIn& lost, NetnsFiles& files, UdpRound& round) const {
  std::uint64_t ended = 0;
  for (const auto& [inode, sockets] : lost) {
    if (sockets.empty()) {
      continue;
    }
    const auto* file = files.find(inode);
    ++round.entered;
    const auto done =
        file == nullptr ? result<std::uint64_t>(system_error(ENOENT)) : end_in(*file, sockets, round);
    const auto count = done ? *done : 0;
    ended += count;
    round.left += count < sockets.size() ? sockets.size() - count : 0;
    if (count < sockets.size()) {
      round.problem = "the kernel does not find some of them by their addresses";
    }
    if (!done) {
      round.problem = done.error() == boost::system::errc::no_such_file_or_directory
                          ? "neither a process nor a file in /run/netns leads to some namespaces"
                          : done.error().message();
    }
  }
  return ended;
}

// sock_diag finds one socket of those that share their addresses and ports; the iterator finds each.
result<std::uint64_t> StaleUdpSockets::end_in(const std::string& netns, const Lost& lost,
                                              UdpRound& round) const {
  result<std::uint64_t> ended = 0;
  if (ends_by_diag_) {
    ended = end_by_diag(netns, lost);
  }
  if (ended && *ended < lost.size() && walker_) {
    ++round.walked;
    const auto more = end_by_walk(netns);
    if (!more) {
      return more;
    }
    ended = *ended + *more;
  }
  return ended;
}

result<std::uint64_t> StaleUdpSockets::end_by_diag(const std::string& netns, const Lost& lost) const {
  const auto diag = open_diag_in(netns);
  if (!diag) {
    return diag.error();
  }
  std::uint64_t ended = 0;
  for (const auto& socket : lost) {
    ended += end_udp_socket(diag->get(), socket) ? 0U : 1U;
  }
  return ended;
}

// The iterator writes a byte for each socket that it ended.
result<std::uint64_t> StaleUdpSockets::end_by_walk(const std::string& netns) const {
  const auto iterator = iterate_in(netns, walker_.get());
  if (!iterator) {
    return iterator.error();
  }
  std::uint64_t ended = 0;
  const auto error = read_all(iterator->get(), [&](const char*, std::size_t size) {
    ended += size;
    return true;
  });
  if (error) {
    return error;
  }
  return ended;
}

}  // namespace lb::agent
