// SPDX-License-Identifier: Apache-2.0
// Parses the values of options; returns nullopt for invalid ones. Pure; does not use the command-line
// library.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {

/// Non-empty parts between commas, without surrounding spaces.
[[nodiscard]] std::vector<std::string> split(std::string_view text);

/// The node name trimmed and in lower case (SEM-85); ASCII suffices, because node names are DNS subdomains.
[[nodiscard]] std::string node_name(std::string_view text);

/// Parses "ADDRESS:PORT" or "[ADDRESS]:PORT".
[[nodiscard]] std::optional<Listen> parse_listen(std::string_view text);

/// Parses "1024-29999,61000-65535": one or two ascending ranges without port 0.
[[nodiscard]] std::optional<std::vector<PortRange>> parse_source_ports(std::string_view text);

/// Parses a comma-separated list of CIDRs, "primary", "localhost" and "all", as kube-proxy accepts it
/// (SEM-92).
[[nodiscard]] std::optional<NodePortAddresses> parse_node_port_addresses(std::string_view text);

/// Parses a comma-separated list of CIDRs; empty if one of them is invalid.
[[nodiscard]] std::vector<k8s::Prefix> parse_prefixes(std::string_view text);

/// Whether the text is a prime from 251 to 131071.
[[nodiscard]] bool is_consistent_size(std::string_view text);

/// Parses a comma-separated list of CIDRs; nullopt for "all" (and for invalid text), an empty list for
/// "none".
[[nodiscard]] std::optional<std::vector<k8s::Prefix>> parse_external_ips(std::string_view text);

/// Parses a comma-separated list of label keys; nullopt for "all", an empty list for "none".
[[nodiscard]] k8s::AllowedLabels parse_topology_labels(std::string_view text);

/// Whether each part between commas (outside of parentheses) looks like a requirement of a label selector:
/// "zone=a", "zone!=a", "zone in (a,b)", "zone", "!zone". The API server checks more.
[[nodiscard]] bool is_label_selector(std::string_view text);

/// Whether the text is a valid label value: at most 63 letters, digits, '-', '_' and '.', with a letter or
/// digit at both ends.
[[nodiscard]] bool is_label_value(std::string_view text);

/// Whether the text is a valid taint key: "example.com/starting" or "starting".
[[nodiscard]] bool is_taint_key(std::string_view text);

/// Why this path is not a valid directory of pins; empty: it is.
[[nodiscard]] std::string pins_problem(const std::string& path);

/// Why node_exporter's textfile collector does not read this file; empty: it does.
[[nodiscard]] std::string textfile_problem(const std::string& path);

}  // namespace lb::agent
