// Parses the values of options; nothing for an invalid one. Pure; no command-line library here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {

/// Non-empty pieces between commas, without the spaces around them.
[[nodiscard]] std::vector<std::string> split(std::string_view text);

/// Trimmed and in lower case (SEM-85); ASCII is enough, node names are DNS subdomains.
[[nodiscard]] std::string node_name(std::string_view text);

/// "ADDRESS:PORT" or "[ADDRESS]:PORT".
[[nodiscard]] std::optional<Listen> parse_listen(std::string_view text);

/// "1024-29999,61000-65535": one or two ascending ranges that do not touch zero.
[[nodiscard]] std::optional<std::vector<PortRange>> parse_source_ports(std::string_view text);

/// A comma separated list of CIDRs, "primary", "localhost" and "all", as kube-proxy takes it (SEM-92).
[[nodiscard]] std::optional<NodePortAddresses> parse_node_port_addresses(std::string_view text);

/// A comma separated list of CIDRs; empty if one of them is wrong.
[[nodiscard]] std::vector<k8s::Prefix> parse_prefixes(std::string_view text);

/// A prime from 251 to 131071.
[[nodiscard]] bool is_consistent_size(std::string_view text);

/// A comma separated list of CIDRs; nothing for "all" (and for what is wrong), an empty list for "none".
[[nodiscard]] std::optional<std::vector<k8s::Prefix>> parse_external_ips(std::string_view text);

/// A comma separated list of label keys; nothing for "all", an empty list for "none".
[[nodiscard]] k8s::AllowedLabels parse_topology_labels(std::string_view text);

/// Whether each piece between commas (outside of parentheses) can be a requirement of a label selector:
/// "zone=a", "zone!=a", "zone in (a,b)", "zone", "!zone". The API server looks closer.
[[nodiscard]] bool is_label_selector(std::string_view text);

/// What a label's value may be: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both
/// ends.
[[nodiscard]] bool is_label_value(std::string_view text);

/// What a taint's key may be: "example.com/starting" or "starting".
[[nodiscard]] bool is_taint_key(std::string_view text);

/// Why this is no directory of pins; empty: it may be one.
[[nodiscard]] std::string wrong_pins(const std::string& path);

/// Why node_exporter's textfile collector does not read this file; empty: it does.
[[nodiscard]] std::string wrong_textfile(const std::string& path);

}  // namespace lb::agent
