// SPDX-License-Identifier: Apache-2.0
// Priority-tagged frames (VLAN 0) belong to the device itself, as in the kernel.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/net/lib/talk.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Woverlength-strings"
namespace lb::test::skeleton {
#include "bpf/priority.skel.h"
}
#pragma GCC diagnostic pop

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

/// Tags all frames that leave eth0 of a host, as long as this object lives.
class Tagging {
 public:
  explicit Tagging(const Host& host)
      : program_(skeleton::priority__open_and_load(), &skeleton::priority__destroy),
        link_(nullptr, &bpf_link__destroy) {
    const int device = host.device_index("eth0");
    const auto before = Namespace::current();
    host.space().enter();
    if (program_) {
      link_.reset(bpf_program__attach_tcx(program_->progs.lb_priority_tag, device, nullptr));
    }
    before.enter();
    if (!link_) {
      throw std::runtime_error("cannot tag frames");
    }
  }

  [[nodiscard]] std::uint64_t tagged() const {
    return std::atomic_ref(program_->bss->lb_priority_tagged).load(std::memory_order_relaxed);
  }

 private:
  std::unique_ptr<skeleton::priority, decltype(&skeleton::priority__destroy)> program_;
  std::unique_ptr<bpf_link, decltype(&bpf_link__destroy)> link_;
};

/// Where the tag is when a frame arrives at the node: in the metadata, as from a card that strips tags, or in
/// the frame.
struct Tag {
  const char* name;
  const char* offload;
};
constexpr Tag beside{"beside the frame", "on"};
constexpr Tag within{"in the frame", "off"};

}  // namespace

TEST_CASE("REL-94 priority-tagged frames are served as those without a tag", "[features]") {
  const auto mode = GENERATE(agent::XdpMode::off, agent::XdpMode::native);
  const auto tag = GENERATE(beside, within);
  PodScene scene(Wiring::routed);
  scene.check_sums();
  scene.options.xdp = mode;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  scene.wire.run(fmt::format("ethtool -K to-node txvlan {} >/dev/null", tag.offload));
  const Tagging outside(scene.outside);
  const Tagging remote(scene.remote);
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      for (const bool here : {true, false}) {
        INFO((mode == agent::XdpMode::off ? "tc " : "XDP ")
             << tag.name << (family == AF_INET ? " IPv4" : " IPv6") << (type == SOCK_STREAM ? " TCP" : " UDP")
             << (here ? " to a pod here" : " to a pod elsewhere"));
        const auto backend = end(here ? known.server : known.remote_pod, backend_port);
        const auto where = end(known.vip, port);
        writer.service(1, {{1, backend, LB_YES, here ? LB_SAME_NODE : LB_ELSEWHERE}});
        writer.frontend(where, type == SOCK_STREAM ? LB_TCP : LB_UDP, 1, LB_LOAD_BALANCER);
        const auto server = serve_at(here ? scene.server : scene.remote, type, backend);
        const auto tagged = outside.tagged();
        const auto rose = counter_deltas(writer, [&] { CHECK(talk(scene.outside, server, type, where)); });
        CHECK(outside.tagged() > tagged);
        CHECK(rose.new_local + rose.new_remote + rose.new_xdp == 1);
      }
    }
  }
}

}  // namespace lb::test
