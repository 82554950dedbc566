// SPDX-License-Identifier: Apache-2.0
// The first attachment: replaces hooks of another map layout, and removes everything of ours if the node
// cannot be served.
#pragma once

#include <optional>
#include <vector>

#include "agent/datapath/attachment_reconciler.hpp"
#include "agent/options/config.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// Whether an earlier agent served from these pins. Its programs keep serving whatever this agent does.
enum class FormerAgent : std::uint8_t { none, served };

/// Throws StartError if the family of the Node's first address is not among `families`, so that nothing
/// addressed to this node could be served (SEM-85). No hook is attached yet.
void require_family(const std::optional<lb_family>& family, const std::vector<lb_family>& families,
                    const maps::Pins& pins, FormerAgent former_agent);

/// Attaches all hooks, and removes pins of other layouts. Throws StartError if a required hook cannot be
/// attached; then detaches the hooks that no earlier agent had attached.
[[nodiscard]] AttachReport attach_first(AttachmentReconciler& attachments, const maps::Pins& pins,
                                        FormerAgent former_agent);

}  // namespace lb::agent
