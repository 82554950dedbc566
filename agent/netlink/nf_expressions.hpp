// The expressions of which nf_tables rules are made, as attributes of NFTA_RULE_EXPRESSIONS.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// Adds the expression `name`; `data` adds its attributes.
void add_expression(netlink::Request& expressions, std::string_view name,
                    const std::function<void(netlink::Request&)>& data);
/// Adds a verdict that ends the rule: NF_ACCEPT or NF_DROP.
void add_verdict(netlink::Request& expressions, std::uint32_t code);
/// Adds a value as nf_tables registers hold it: a number in host byte order is the kernel's own.
void add_value(netlink::Request& request, std::uint16_t type, netlink::Bytes value);

}  // namespace lb::agent
