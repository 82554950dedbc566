// SPDX-License-Identifier: Apache-2.0
// Parses the values of options.
#include "agent/options/option_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <locale>
#include <regex>
#include <sstream>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::size_t max_port_digits = 5;

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (text.empty() || text.size() > max_port_digits || error != std::errc{} || rest != end) {
    return std::nullopt;
  }
  return port;
}

std::optional<unsigned> parse_number(std::string_view text) {
  unsigned number = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return text.empty() || error != std::errc{} || rest != end ? std::nullopt : std::optional(number);
}

std::optional<PortRange> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto first = parse_port(text.substr(0, dash));
  const auto last = parse_port(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last) {
    return std::nullopt;
  }
  return PortRange{*first, *last};
}

}  // namespace

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> pieces;
  std::istringstream stream{std::string(text)};
  for (std::string piece; std::getline(stream, piece, ',');) {
    if (boost::algorithm::trim(piece); !piece.empty()) {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

std::string node_name(std::string_view text) {
  std::string name(text);
  boost::algorithm::trim(name);
  boost::algorithm::to_lower(name, std::locale::classic());
  return name;
}

std::vector<k8s::Prefix> parse_prefixes(std::string_view text) {
  std::vector<k8s::Prefix> prefixes;
  for (const auto& piece : split(text)) {
    const auto prefix = k8s::Prefix::parse(piece);
    if (!prefix) {
      return {};
    }
    prefixes.push_back(*prefix);
  }
  return prefixes;
}

bool is_consistent_size(std::string_view text) {
  const auto size = parse_number(text);
  if (!size || *size < 251 || *size > 131071) {
    return false;
  }
  for (unsigned factor = 2; factor * factor <= *size; ++factor) {
    if (*size % factor == 0) {
      return false;
    }
  }
  return true;
}

k8s::AllowedLabels parse_topology_labels(std::string_view text) {
  if (text == "all") {
    return std::nullopt;
  }
  k8s::LabelKeys labels;
  if (text != "none") {
    for (auto& label : split(text)) {
      labels.insert(std::move(label));
    }
  }
  return labels;
}

std::optional<std::vector<k8s::Prefix>> parse_external_ips(std::string_view text) {
  auto ranges = parse_prefixes(text);
  return ranges.empty() && text != "none" ? std::nullopt : std::optional(std::move(ranges));
}

std::optional<Listen> parse_listen(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  auto host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  const auto address = k8s::Address::parse(host);
  const auto port = parse_port(text.substr(colon + 1));
  if (!address || !port || bracketed != (host.find(':') != std::string_view::npos)) {
    return std::nullopt;
  }
  return Listen{std::string(host), *port};
}

std::optional<std::vector<PortRange>> parse_source_ports(std::string_view text) {
  std::vector<PortRange> ranges;
  for (const auto& piece : split(text)) {
    const auto range = parse_range(piece);
    if (!range || (!ranges.empty() && range->first <= ranges.back().last)) {
      return std::nullopt;
    }
    ranges.push_back(*range);
  }
  if (ranges.empty() || ranges.size() > 2) {
    return std::nullopt;
  }
  return ranges;
}

bool is_label_value(std::string_view text) {
  const auto ends = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto inside = [&](char c) { return ends(c) || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= 63 && ends(text.front()) && ends(text.back()) &&
         std::ranges::all_of(text, inside);
}

bool is_taint_key(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    return is_label_value(text);
  }
  const auto prefix = text.substr(0, slash);
  const auto part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
  };
  return !prefix.empty() && prefix.size() <= 253 && std::ranges::all_of(prefix, part) &&
         is_label_value(text.substr(slash + 1));
}

bool is_label_selector(std::string_view text) {
  static const std::regex requirement(
      R"(\s*(!\s*)?[A-Za-z0-9][A-Za-z0-9._/-]*\s*((=|==|!=)\s*[A-Za-z0-9._-]*|(in|notin)\s*\([A-Za-z0-9._, -]*\))?\s*)");
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && (depth == 0 || at == text.size())) {
      const std::string piece(text.substr(begin, at - begin));
      if (!std::regex_match(piece, requirement)) {
        return false;
      }
      begin = at + 1;
    }
  }
  return depth == 0;
}

std::optional<NodePortAddresses> parse_node_port_addresses(std::string_view text) {
  NodePortAddresses addresses{NodePortScope::ranges, {}};
  const auto pieces = split(text);
  for (const auto& piece : pieces) {
    if (piece == "all") {
      return NodePortAddresses{};
    }
    if (piece == "primary") {
      addresses.scope = NodePortScope::primary;
      continue;
    }
    const auto ranges = parse_prefixes(piece == "localhost" ? "127.0.0.0/8,::1/128" : piece);
    if (ranges.empty()) {
      return std::nullopt;
    }
    addresses.ranges.insert(addresses.ranges.end(), ranges.begin(), ranges.end());
  }
  return pieces.empty() ? std::nullopt : std::optional(std::move(addresses));
}

std::string pins_problem(const std::string& path) {
  const auto normal = std::filesystem::path(path).lexically_normal();
  const auto name = (normal.has_filename() ? normal : normal.parent_path()).filename().string();
  return name.find('.') == std::string::npos
             ? std::string()
             : fmt::format("'{}' contains a dot; names in a BPF file system must not", path);
}

std::string textfile_problem(const std::string& path) {
  return path.ends_with(".prom")
             ? std::string()
             : fmt::format("'{}' does not end in .prom, so node_exporter does not read it", path);
}

}  // namespace lb::agent
