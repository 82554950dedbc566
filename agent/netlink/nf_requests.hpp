// SPDX-License-Identifier: Apache-2.0
// Requests that make tables, chains and rules of nf_tables, and the expressions of rules.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "agent/netlink/netlink.hpp"
#include "agent/netlink/nf_batch.hpp"

namespace lb::agent {

[[nodiscard]] netlink::Request new_nf_table(const NfBatch& batch, std::string_view table);
/// A chain that no packet reaches; add_hook() makes it a base chain.
[[nodiscard]] netlink::Request new_nf_chain(const NfBatch& batch, std::string_view table,
                                            std::string_view chain);
/// Appends a rule to the chain; `expressions` adds its expressions.
[[nodiscard]] netlink::Request new_nf_rule(const NfBatch& batch, std::string_view table,
                                           std::string_view chain, netlink::Wanted wanted,
                                           const std::function<void(netlink::Request&)>& expressions);

/// `type`: "filter" or "nat"; `hook`: NF_INET_…; `priority`: NF_IP_PRI_…
void add_hook(netlink::Request& chain, std::string_view type, std::uint32_t hook, int priority);
/// Adds the expression `name`; `data` adds its attributes.
void add_expression(netlink::Request& expressions, std::string_view name,
                    const std::function<void(netlink::Request&)>& data);
/// Adds a verdict that ends the rule: NF_ACCEPT or NF_DROP.
void add_verdict(netlink::Request& expressions, std::uint32_t code);
/// Adds a value as nf_tables registers hold it: a number in host byte order is the kernel's own.
void add_value(netlink::Request& request, std::uint16_t type, netlink::Bytes value);

}  // namespace lb::agent
