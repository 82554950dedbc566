// SPDX-License-Identifier: Apache-2.0
#include "agent/run/first_attach.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/attach/detach.hpp"
#include "agent/attach/layout_migration.hpp"
#include "agent/base/error.hpp"

namespace lb::agent {

void require_family(const std::optional<lb_family>& family, const std::vector<lb_family>& families,
                    const maps::Pins& pins, FormerAgent former_agent) {
  if (!family || std::ranges::find(families, *family) != families.end()) {
    return;
  }
  if (former_agent == FormerAgent::none) {
    detach_pins(pins);
  }
  throw StartError(
      "the Node's first address is IPv6, which is switched off on this node (net.ipv6.conf.all.disable_ipv6, "
      "or a kernel without it): switch it on");
}

AttachReport attach_first(AttachmentReconciler& attachments, const maps::Pins& pins,
                          FormerAgent former_agent) {
  const auto other_layouts = take_over_hooks(pins);
  auto report = attachments.attach();
  if (const auto failure = report.failure(); !failure.empty()) {
    if (former_agent == FormerAgent::none && other_layouts.empty()) {
      detach_all(pins);
    }
    throw StartError(failure + "; see --devices, --xdp and --sockets for what to leave out");
  }
  for (const auto& each : other_layouts) {
    spdlog::info("took over {} hooks of map layout {}; flows in its tables are found again by their hash",
                 each.hooks, each.layout);
    remove_other_layout(pins, each);
  }
  return report;
}

}  // namespace lb::agent
