// SPDX-License-Identifier: Apache-2.0
// Feeds Boost.JSON's parser line by line, so that the line of each value is known.
#include "agent/options/kube_proxy_config_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/string.hpp>
#include <limits>
#include <utility>

#include "k8s/encoding/yaml.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;

/// The parser's handler; builds the tree.
class TreeBuilder {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  std::size_t line = 1;

  [[nodiscard]] ConfigNode take() { return std::move(root_); }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return open(ConfigNode::Kind::mapping); }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_array_begin(json::error_code&) { return open(ConfigNode::Kind::list); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) { return append(part); }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    append(part);
    open_.back()->children.emplace_back().name = std::exchange(text_, {});
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) { return append(part); }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    append(part);
    return scalar(json::string(std::exchange(text_, {})));
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, json::error_code&) { return scalar(value); }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code&) { return scalar(value); }
  bool on_double(double value, json::string_view, json::error_code&) { return scalar(value); }
  bool on_bool(bool value, json::error_code&) { return scalar(value); }
  bool on_null(json::error_code&) { return scalar(nullptr); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool append(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }

  /// The node for the value that begins now. Open nodes do not move: only the last child of each grows.
  ConfigNode& next() {
    if (open_.empty()) {
      return root_;
    }
    auto& parent = *open_.back();
    return parent.kind == ConfigNode::Kind::mapping ? parent.children.back() : parent.children.emplace_back();
  }

  bool open(ConfigNode::Kind kind) {
    auto& node = next();
    node.line = line;
    node.kind = kind;
    open_.push_back(&node);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool scalar(json::value value) {
    auto& node = next();
    node.line = line;
    node.scalar = std::move(value);
    return true;
  }

  ConfigNode root_;
  std::vector<ConfigNode*> open_;
  std::string text_;
};

std::variant<ConfigNode, ConfigSyntaxError> parse_json(std::string_view text) {
  json::basic_parser<TreeBuilder> parser{json::parse_options()};
  auto& builder = parser.handler();
  json::error_code error;
  while (!text.empty() && !error) {
    const auto end = std::min(text.find('\n'), text.size() - 1) + 1;
    const auto taken = parser.write_some(end < text.size(), text.data(), end, error);
    if (!error && taken < end && text.substr(taken, end - taken).find_first_not_of(" \t\r\n") != text.npos) {
      error = json::error::extra_data;
    }
    text.remove_prefix(end);
    builder.line += error ? 0 : 1;
  }
  if (!error && !parser.done()) {
    error = json::error::incomplete;
  }
  if (error) {
    return ConfigSyntaxError{builder.line, fmt::format("is not valid JSON: {}", error.message())};
  }
  return builder.take();
}

}  // namespace

std::variant<ConfigNode, ConfigSyntaxError> parse_config_text(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '{') {
    return parse_json(text);
  }
  const auto yaml = k8s::yaml_to_json(text);
  if (!yaml.error.empty()) {
    return ConfigSyntaxError{yaml.line + 1, yaml.error};
  }
  return parse_json(yaml.json);
}

}  // namespace lb::agent
