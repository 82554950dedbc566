// Words of the command line to values, and nothing for what is none.
#include "agent/option_text.hpp"

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <charconv>
#include <locale>
#include <sstream>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::size_t longest_port_text = 5;

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (text.empty() || text.size() > longest_port_text || error != std::errc{} || rest != end) {
    return std::nullopt;
  }
  return port;
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

/// Empty if one of them is wrong.
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

std::optional<NodePortAddresses> parse_node_port_addresses(std::string_view text) {
  if (text == "all") {
    return NodePortAddresses{};
  }
  if (text == "primary") {
    return NodePortAddresses{NodePortScope::primary, {}};
  }
  auto ranges = parse_prefixes(text);
  return ranges.empty() ? std::nullopt
                        : std::optional(NodePortAddresses{NodePortScope::ranges, std::move(ranges)});
}

}  // namespace lb::agent
