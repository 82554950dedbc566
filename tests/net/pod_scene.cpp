// Namespaces, routes and exchanges.
#include "tests/net/pod_scene.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>

#include "agent/node_watch.hpp"
#include "agent/pods.hpp"

namespace lb::test {
namespace {

const PodNames ipv4_names = {"10.244.1.2", "10.244.1.3", "192.0.2.2", "192.0.2.1", "10.96.0.1"};
const PodNames ipv6_names = {"fd00:244:1::2", "fd00:244:1::3", "2001:db8:1::2", "2001:db8:1::1",
                             "fd00:96::1"};

constexpr const char* no_dad = "sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0";

std::map<std::uint32_t, agent::NetDevice> devices_now() {
  boost::asio::io_context context;
  bool whole = false;
  const agent::NodeWatch watch(context, [&] { whole = true; });
  while (!whole && context.run_one() > 0) {
  }
  return watch.network().devices();
}

void limit_waiting(const Socket& socket) {
  constexpr timeval second{1, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
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
  space_.enter();
  Socket made(family, type);
  before.enter();
  limit_waiting(made);
  return made;
}

void Host::run(const std::string& command) const {
  const auto before = Namespace::current();
  space_.enter();
  shell(command);
  before.enter();
}

// An address that is looked for duplicates of cannot be used for a second or two.
Host::Host() : space_(Namespace::fresh()) { run(no_dad); }

PodScene::PodScene(Wiring wiring) : options(lab.options()), wiring_(wiring) {
  shell(no_dad);
  shell(fmt::format("ip link add eth0 type veth peer name eth0 netns {}", remote.space().path()));
  shell(
      "ip link set eth0 up && ip address add 192.0.2.1/24 dev eth0 && "
      "ip address add 2001:db8:1::1/64 dev eth0 nodad && "
      "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
  remote.run(
      "ip link set eth0 up && ip address add 192.0.2.2/24 dev eth0 && "
      "ip address add 2001:db8:1::2/64 dev eth0 nodad && ip route add 10.244.1.0/24 via 192.0.2.1 && "
      "ip route add fd00:244:1::/64 via 2001:db8:1::1");
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

agent::AttachReport PodScene::attach() {
  if (!datapath) {
    datapath.emplace(agent::Datapath::open(options));
  }
  datapath->set_pods(agent::pod_devices(devices_now(), options));
  return datapath->attach();
}

std::optional<End> exchange(const Host& client, const Socket& server, int type, const End& where) {
  const auto family = where.address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6;
  const auto socket = client.socket(family, type);
  return type == SOCK_STREAM ? connect_once(socket, server, where) : echo_of(socket, server, where);
}

}  // namespace lb::test
