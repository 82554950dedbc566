// SPDX-License-Identifier: Apache-2.0
// REL-14, SEM-42, SEM-43: datagrams of 8 KB, larger than every MTU, through a service and back, fragmented by
// kernels and with the fragments in other orders.
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t client_port = 33000;
constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t size = 8192;

/// The content that fragments.py makes.
std::string large() {
  std::string words(size, '\0');
  for (std::size_t at = 0; at < words.size(); ++at) {
    words[at] = static_cast<char>(at * 7 + at / 256);
  }
  return words;
}

struct Path {
  const char* name;
  Host PodScene::* from;
  std::string PodNames::* client;
  Host PodScene::* to;
  std::string PodNames::* backend;
  lb_kind kind;
};

const std::vector<Path> paths = {
    {"outside to a pod elsewhere", &PodScene::outside, &PodNames::outside, &PodScene::remote,
     &PodNames::remote_pod, LB_LOAD_BALANCER},
    {"outside to a pod here", &PodScene::outside, &PodNames::outside, &PodScene::server, &PodNames::server,
     LB_LOAD_BALANCER},
    {"pod to a pod elsewhere", &PodScene::client, &PodNames::client, &PodScene::remote, &PodNames::remote_pod,
     LB_CLUSTER_IP},
    {"pod to a pod here", &PodScene::client, &PodNames::client, &PodScene::server, &PodNames::server,
     LB_CLUSTER_IP},
};

/// Each path has its own service, because the client's port is always the same.
std::uint16_t port_of(const Path& path) { return static_cast<std::uint16_t>(port + (&path - paths.data())); }

/// Client, server and the service between them.
struct Talk {
  Talk(const PodScene& scene, Writer& writer, const Path& path, int family)
      : from(scene.*path.from),
        to(scene.*path.to),
        own(end(names(family).*path.client, client_port)),
        where(end(path.kind == LB_CLUSTER_IP ? names(family).service : names(family).vip, port_of(path))),
        backend(end(names(family).*path.backend, backend_port)),
        client(serve_at(from, SOCK_DGRAM, own)),
        server(serve_at(to, SOCK_DGRAM, backend)) {
    const auto number = static_cast<std::uint32_t>(where.port);
    writer.service(number, {{number, backend}});
    writer.frontend(where, LB_UDP, number, path.kind);
  }

  const Host& from;
  const Host& to;
  End own, where, backend;
  Socket client, server;
};

/// Whether the whole datagram arrives from `source`.
bool hears(const Socket& socket, const End& source) {
  const auto message = socket.receive();
  return message && message->words == large() && message->from == source;
}

/// No two of our datagrams share an IP identification, as with real hosts.
void shuffle(const Host& host, const End& source, const End& destination, const std::string& order) {
  static int number = 7000;
  host.run(fmt::format("/usr/bin/python3 {} {} {} {} {} {} {} {}", source_path("tests/net/lib/fragments.py"),
                       source.address.text(), source.port, destination.address.text(), destination.port, size,
                       ++number, order));
}

/// Opens a flow by a small request and its reply; returns the client's address that the backend saw.
End opened(const Talk& talk) {
  REQUIRE(talk.client.send_to(talk.where, "small") == 0);
  const auto seen = echo_once(talk.server);
  REQUIRE(seen);
  REQUIRE(talk.client.receive());
  return *seen;
}

template <class Test>
void for_each_path(Test test) {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto& path : paths) {
      INFO((family == AF_INET ? "IPv4" : "IPv6") << ", " << path.name);
      const Talk talk(scene, writer, path, family);
      test(writer, talk);
    }
  }
}

void arrive_in_order_of(const std::vector<std::string>& orders) {
  for_each_path([&](Writer&, const Talk& talk) {
    const auto seen = opened(talk);
    for (const auto& order : orders) {
      INFO(order);
      shuffle(talk.from, talk.own, talk.where, order);
      CHECK(hears(talk.server, seen));
      shuffle(talk.to, talk.backend, seen, order);
      CHECK(hears(talk.client, talk.where));
    }
  });
}

}  // namespace

TEST_CASE("SEM-43 REL-14 datagrams of 8 KB arrive whole, from the first one on, in both directions") {
  for_each_path([](Writer& writer, const Talk& talk) {
    const auto rose = counter_deltas(writer, [&] {
      for (int round = 0; round < 3; ++round) {
        REQUIRE(talk.client.send_to(talk.where, large()) == 0);
        const auto message = talk.server.receive();
        REQUIRE(message);
        CHECK(message->words == large());
        REQUIRE(talk.server.send_to(message->from, large()) == 0);
        CHECK(hears(talk.client, talk.where));
      }
    });
    CHECK(rose.flow_redirect + rose.flow_stack >=
          30);  // three rounds, both ways, five fragments after each first one
  });
}

TEST_CASE("REL-14 fragments whose first comes first may come in any order") {
  arrive_in_order_of({"in-order", "rest-reversed"});
}

TEST_CASE("REL-14 fragments may come in any order") { arrive_in_order_of({"rotated", "reversed"}); }

}  // namespace lb::test
