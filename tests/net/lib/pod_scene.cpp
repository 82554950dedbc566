// SPDX-License-Identifier: Apache-2.0
// Namespaces, routes and exchanges.
#include "tests/net/lib/pod_scene.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "agent/attach/pods.hpp"
#include "agent/netlink/node_watch.hpp"

namespace lb::test {
namespace {

const PodNames ipv4_names = {"10.244.1.2", "10.244.1.3",  "192.0.2.2",   "192.0.2.1",    "10.96.0.1",
                             "10.244.2.2", "192.0.2.100", "203.0.113.1", "198.51.100.1", "10.244.0.0/16"};
const PodNames ipv6_names = {"fd00:244:1::2",  "fd00:244:1::3", "2001:db8:1::2",   "2001:db8:1::1",
                             "fd00:96::1",     "fd00:244:2::2", "2001:db8:1::100", "2001:db8:113::1",
                             "2001:db8:51::1", "fd00:244::/32"};

constexpr const char* no_dad = "sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0";

agent::NodeNetwork network_now() {
  boost::asio::io_context context;
  bool whole = false;
  const agent::NodeWatch watch(context, [&] { whole = true; });
  while (!whole && context.run_one() > 0) {
  }
  return watch.network();
}

void limit_waiting(const Socket& socket) {
  constexpr timeval longest{3, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
}

/// Asks an ioctl about a device of the socket's network namespace.
ifreq asked_of(const Socket& socket, unsigned long question, const char* device) {
  ifreq answer{};
  std::strncpy(&answer.ifr_name[0], device, IFNAMSIZ - 1);
  if (::ioctl(socket.fd(), question, &answer) != 0) {
    throw std::system_error(errno, std::generic_category(), device);
  }
  return answer;
}

std::optional<End> connect_once(const Socket& client, const Socket& server, const End& where) {
  if (client.connect(where) != 0) {
    return std::nullopt;
  }
  return server.accept();
}

std::optional<End> echo_of(const Socket& client, const Socket& server, const End& where) {
  if (client.send_to(where, "words") != 0) {
    return std::nullopt;
  }
  const auto seen = echo_once(server);
  const auto answer = client.receive();
  return answer && answer->words == "words" && answer->from == where ? seen : std::nullopt;
}

}  // namespace

const PodNames& names(int family) { return family == AF_INET ? ipv4_names : ipv6_names; }

Socket Host::socket(int family, int type) const {
  const auto before = Namespace::current();
  namespace_.enter();
  Socket made(family, type);
  before.enter();
  limit_waiting(made);
  return made;
}

void Host::run(const std::string& command) const {
  const auto before = Namespace::current();
  namespace_.enter();
  shell(command);
  before.enter();
}

int Host::device_index(const char* device) const {
  const auto asking = socket(AF_INET, SOCK_DGRAM);
  return asked_of(asking, SIOCGIFINDEX, device).ifr_ifindex;
}

MacAddress Host::mac_address(const char* device) const {
  const auto asking = socket(AF_INET, SOCK_DGRAM);
  const auto answer = asked_of(asking, SIOCGIFHWADDR, device);
  MacAddress mac{};
  std::memcpy(mac.data(), &answer.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

std::string Host::output(const std::string& command) const {
  const auto before = Namespace::current();
  namespace_.enter();
  std::string words;
  if (const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1").c_str(), "r"), &::pclose);
      pipe) {
    std::array<char, 4096> buffer{};
    for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;) {
      words.append(buffer.data(), size);
    }
  } else {
    throw std::system_error(errno, std::generic_category(), command);
  }
  before.enter();
  return words;
}

// The shell runs in its own process group, so that its children end with it.
Running Host::start(const std::string& command) const {
  const auto process = ::fork();
  if (process == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    namespace_.enter();
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(null, stream);
    }
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ::setpgid(process, process);
  return Running(process);
}

Running::~Running() {
  if (process_ > 0) {
    ::kill(-process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
}

void Running::interrupt() const { ::kill(-process_, SIGINT); }

int Running::wait() {
  int status = 0;
  ::waitpid(std::exchange(process_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Host Host::here() { return Host(Namespace::current()); }

// While duplicate address detection runs, an address is unusable for a second or two.
Host::Host() : namespace_(Namespace::fresh()) { run(no_dad); }

PodScene::PodScene(Wiring wiring) : options(lab.options()), wiring_(wiring) {
  shell(no_dad);
  lay_wire();
  if (wiring == Wiring::bridged) {
    shell(
        "ip link add br0 type bridge && ip link set br0 up && ip address add 10.244.1.1/24 dev br0 && "
        "ip address add fd00:244:1::1/64 dev br0 nodad");
    options.pod_bridge = "br0";
  } else {
    options.pod_devices = {"pods"};
  }
  connect_pod(client, "pods2", 2);
  connect_pod(server, "pods3", 3);
  options.sockets = agent::SocketScope::off;
  options.devices = {"eth0"};
  options.xdp = agent::XdpMode::off;
}

// A veth delivers the frames of an XDP program only to a peer that polls; GRO makes it poll.
void PodScene::join(const Host& host, const std::string& port, int number) {
  wire.run(
      fmt::format("ip link add {0} type veth peer name eth0 netns {1} && ip link set {0} master wire up && "
                  "ethtool -K {0} gro on",
                  port, host.space().path()));
  host.run(
      fmt::format("ip link set eth0 up && ip address add 192.0.2.{0}/24 dev eth0 && "
                  "ip address add 2001:db8:1::{0}/64 dev eth0 nodad",
                  number));
}

void PodScene::lay_wire() {
  const auto node = Host::here();
  wire.run("ip link add wire type bridge && ip link set wire up");
  join(node, "to-node", 1);
  join(remote, "to-remote", 2);
  join(outside, "to-outside", 100);
  node.run(
      "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 && "
      "ip link add second type veth peer name second1 && ip link set second up && "
      "ip address add 198.51.100.1/32 dev second && "
      "ip address add 2001:db8:51::1/128 dev second nodad && "
      "ip route add 10.244.2.0/24 via 192.0.2.2 && ip route add fd00:244:2::/64 via 2001:db8:1::2 && "
      "ip route add default via 192.0.2.100 && ip route add default via 2001:db8:1::100");
  remote.run(
      "ip address add 10.244.2.2/32 dev lo && ip address add fd00:244:2::2/128 dev lo nodad && "
      "ip route add 10.244.1.0/24 via 192.0.2.1 && ip route add fd00:244:1::/64 via 2001:db8:1::1");
  outside.run("ip route add default via 192.0.2.1 && ip route add default via 2001:db8:1::1");
}

void PodScene::connect_pod(const Host& pod, const std::string& device, int number) {
  shell(fmt::format("ip link add {0} type veth peer name eth0 netns {1} && ip link set {0} up", device,
                    pod.space().path()));
  if (wiring_ == Wiring::bridged) {
    shell(fmt::format("ip link set {} master br0", device));
    pod.run(
        fmt::format("ip link set eth0 up && ip address add 10.244.1.{0}/24 dev eth0 && "
                    "ip address add fd00:244:1::{0}/64 dev eth0 nodad",
                    number));
  } else {
    shell(fmt::format(
        "ip address add 10.244.1.1/32 dev {0} && ip address add fd00:244:1::1/128 dev {0} nodad && "
        "ip route add 10.244.1.{1} dev {0} && ip route add fd00:244:1::{1} dev {0}",
        device, number));
    pod.run(
        fmt::format("ip link set eth0 up && ip address add 10.244.1.{0}/32 dev eth0 && "
                    "ip address add fd00:244:1::{0}/128 dev eth0 nodad && "
                    "ip route add 10.244.1.1 dev eth0 && ip route add fd00:244:1::1 dev eth0",
                    number));
  }
  pod.run("ip route add default via 10.244.1.1 && ip route add default via fd00:244:1::1");
}

void PodScene::check_sums() const {
  for (const auto* host : {&remote, &outside, &client, &server}) {
    host->run("ethtool -K eth0 tx off >/dev/null");
  }
  wire.run("ethtool -K to-node tx off >/dev/null");  // GRO's segments are split again here
}

bool PodScene::runs_xdp() const {
  return options.xdp != agent::XdpMode::off &&
         std::ranges::find(options.without, "xdp") == options.without.end();
}

agent::AttachReport PodScene::attach() {
  if (!datapath) {
    datapath.emplace(agent::Datapath::open(options, lock ? &*lock : nullptr));
  }
  const auto network = network_now();
  const auto sources = network.sources(options.devices);
  datapath->page().set_sources(sources.ipv4, sources.ipv6);
  lb_node_policy node_policy{};
  node_policy.local_detection4 = node_policy.local_detection6 = LB_DETECT_BY_DEVICE;
  datapath->page().set_node_policy(node_policy);
  datapath->set_pods(agent::pod_devices(network.devices(), options));
  return datapath->attach();
}

std::optional<End> exchange(const Host& client, const Socket& server, int type, const End& where) {
  const auto family = where.address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
  const auto socket = client.socket(family, type);
  return type == SOCK_STREAM ? connect_once(socket, server, where) : echo_of(socket, server, where);
}

}  // namespace lb::test
