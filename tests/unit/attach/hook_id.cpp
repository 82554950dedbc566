// SPDX-License-Identifier: Apache-2.0
// The readable text of a hook id.
#include "agent/attach/hook_id.hpp"

#include <catch2/catch_test_macros.hpp>

namespace lb::agent {
namespace {

struct Case {
  HookId hook;
  const char* name;
  const char* text;
};

const Case cases[] = {
    {{HookKind::tc_ingress, "eth0"}, "ingress", "eth0 ingress"},
    {{HookKind::tc_egress, "eth0"}, "egress", "eth0 egress"},
    {{HookKind::pod_ingress, "veth7"}, "pod_ingress", "veth7 pod_ingress"},
    {{HookKind::pod_egress, "veth7"}, "pod_egress", "veth7 pod_egress"},
    {{HookKind::xdp, "eth0"}, "xdp", "eth0 xdp"},
    {{HookKind::socket, {}, "connect4"}, "connect4", "cgroup connect4"},
    {{HookKind::any, "eth0"}, "any hook", "eth0"},
    {{HookKind::any}, "any hook", "any hook"},
};

}  // namespace

TEST_CASE("a hook's name and text") {
  for (const auto& [hook, name, text] : cases) {
    CHECK(hook.name() == name);
    CHECK(hook.text() == text);
  }
}

}  // namespace lb::agent
