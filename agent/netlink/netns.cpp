// SPDX-License-Identifier: Apache-2.0
// Lists files below /proc and /run/netns; device and inode numbers identify each namespace.
#include "agent/netlink/netns.hpp"

#include <fcntl.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/proc.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

maps::Fd open_netns(const std::string& file) { return maps::Fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC)); }

/// The namespaces that were found, each once.
class Found {
 public:
  /// Adds the namespace of a file, unless the file is not a namespace file: all those are in one kernel file
  /// system (nsfs), which the first one shows.
  void add(const std::string& file) {
    struct stat status{};
    if (::stat(file.c_str(), &status) == 0 && (namespaces_.empty() || status.st_dev == nsfs_) &&
        known_.insert(status.st_ino).second) {
      nsfs_ = status.st_dev;
      namespaces_.push_back({status.st_ino, file});
    }
  }
  [[nodiscard]] std::vector<Netns> take() { return std::move(namespaces_); }

 private:
  dev_t nsfs_ = 0;
  std::set<ino_t> known_;
  std::vector<Netns> namespaces_;
};

/// The nsid that our namespace has for that namespace; negative if none is assigned.
std::int32_t number_of(int socket, const std::string& file) {
  const auto netns = open_netns(file);
  netlink::Request request(RTM_GETNSID, netlink::Wanted::one, rtgenmsg{});
  request.add(NETNSA_FD, static_cast<std::uint32_t>(netns.get()));
  std::int32_t number = NETNSA_NSID_NOT_ASSIGNED;
  static_cast<void>(netlink::ask(socket, request, [&](const auto&, netlink::Bytes body) {
    const auto attributes = netlink::after(body, sizeof(rtgenmsg));
    number = netlink::read<std::int32_t>(netlink::attribute(attributes, NETNSA_NSID)).value_or(number);
  }));
  return number;
}

bool may_enter_others() {
  const auto own = open_netns(own_netns);
  return own && ::setns(own.get(), CLONE_NEWNET) == 0;
}

}  // namespace

Netns network_namespace() {
  Found found;
  found.add(own_netns);
  auto own = found.take();
  return own.empty() ? Netns{0, own_netns} : std::move(own.front());
}

std::vector<Netns> network_namespaces() {
  Found found;
  found.add(own_netns);
  std::error_code error;
  for (std::filesystem::directory_iterator at("/run/netns", error), end; !error && at != end;
       at.increment(error)) {
    found.add(at->path().string());
  }
  for_each_number("/proc", [&](int process) {
    found.add("/proc/" + std::to_string(process) + "/ns/net");
    return true;
  });
  return found.take();
}

// A thread that cannot return to its namespace is useless. Our own namespace is not entered, so it needs no
// privilege. Whoever removes a named namespace unmounts its file first; setns() says EINVAL to the plain file
// that is found then.
error_code in_netns(const std::string& netns, const std::function<error_code()>& act) {
  if (netns == own_netns) {
    return act();
  }
  const auto own = open_netns(own_netns);
  const auto there = open_netns(netns);
  if (!own || !there) {
    return last_error();
  }
  if (::setns(there.get(), CLONE_NEWNET) != 0) {
    return system_error(errno == EINVAL ? ENOENT : errno);
  }
  const auto error = act();
  if (::setns(own.get(), CLONE_NEWNET) != 0) {
    std::terminate();
  }
  return error;
}

Reach reach_of(const std::map<std::uint32_t, NetDevice>& devices, const std::vector<std::string>& uplink) {
  Reach reach{may_enter_others(), 0};
  std::set<std::int32_t> unseen;
  for (const auto& [index, device] : devices) {
    if (device.peer_netns && std::ranges::find(uplink, device.name) == uplink.end()) {
      unseen.insert(*device.peer_netns);
    }
  }
  if (unseen.empty()) {
    return reach;
  }
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  for (const auto& netns : network_namespaces()) {
    unseen.erase(number_of(socket.get(), netns.file));
  }
  reach.unseen = unseen.size();
  return reach;
}

}  // namespace lb::agent
