// SPDX-License-Identifier: Apache-2.0
#include "agent/attach/hook_id.hpp"

#include <fmt/format.h>

namespace lb::agent {

std::string_view HookId::name() const noexcept {
  switch (kind) {
    case HookKind::tc_ingress:
      return "ingress";
    case HookKind::tc_egress:
      return "egress";
    case HookKind::pod_ingress:
      return "pod_ingress";
    case HookKind::pod_egress:
      return "pod_egress";
    case HookKind::xdp:
      return "xdp";
    case HookKind::socket:
      return socket;
    case HookKind::any:
      break;
  }
  return "any hook";
}

std::string HookId::text() const {
  if (kind == HookKind::any) {
    return device.empty() ? std::string(name()) : device;
  }
  return fmt::format("{} {}", kind == HookKind::socket ? "cgroup" : device, name());
}

}  // namespace lb::agent
