// Words of the command line to values, and nothing for what is none. Pure; no command-line library here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.hpp"

namespace lb::agent {

/// Non-empty pieces between commas, without the spaces around them.
[[nodiscard]] std::vector<std::string> split(std::string_view text);

/// Trimmed and in lower case (SEM-85); ASCII is enough, node names are DNS subdomains.
[[nodiscard]] std::string node_name(std::string_view text);

/// "ADDRESS:PORT" or "[ADDRESS]:PORT".
[[nodiscard]] std::optional<Listen> parse_listen(std::string_view text);

/// "1024-29999,61000-65535": one or two ascending ranges that do not touch zero.
[[nodiscard]] std::optional<std::vector<PortRange>> parse_source_ports(std::string_view text);

/// "all", "primary" or a comma separated list of CIDRs.
[[nodiscard]] std::optional<NodePortAddresses> parse_node_port_addresses(std::string_view text);

/// A comma separated list of CIDRs; nothing for "all" (and for what is wrong), an empty list for "none".
[[nodiscard]] std::optional<std::vector<k8s::Prefix>> parse_external_ips(std::string_view text);

}  // namespace lb::agent
