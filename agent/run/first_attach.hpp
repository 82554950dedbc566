// Attaches for the first time: hooks of another map layout are taken over, and where the node cannot be
// served nothing of ours stays behind.
#pragma once

#include <optional>
#include <vector>

#include "agent/datapath/attachment_reconciler.hpp"
#include "agent/options/config.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// Did an earlier agent serve from these pins? What it left goes on serving whatever becomes of this one.
enum class FormerAgent : std::uint8_t { none, served };

/// Throws StartError where nothing that is addressed to this node could be served, because the family of its
/// Node's first address is not among `families` (SEM-85). No hook is attached yet.
void require_family(const std::optional<lb_family>& family, const std::vector<lb_family>& families,
                    const maps::Pins& pins, FormerAgent former_agent);

/// Attaches all hooks, and removes what other layouts have pinned. Throws StartError where one that is asked
/// for cannot be attached; hooks that no earlier agent had attached are detached again then.
[[nodiscard]] AttachReport attach_first(AttachmentReconciler& attachments, const maps::Pins& pins,
                                        FormerAgent former_agent);

}  // namespace lb::agent
