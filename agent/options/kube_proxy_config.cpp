// SPDX-License-Identifier: Apache-2.0
// Compares the tree with the table: fields not in the table are unknown, and fields of another type are
// rejected.
#include "agent/options/kube_proxy_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/trim.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "agent/options/kube_proxy_config_tree.hpp"
#include "agent/options/option_text.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;

constexpr std::string_view api_version = "kubeproxy.config.k8s.io/v1alpha1";
constexpr std::string_view kind = "KubeProxyConfiguration";

template <class Number>
std::optional<std::int64_t> whole_within(const json::value& value) {
  const auto fits = [](auto number) { return std::in_range<Number>(number); };
  if (const auto* number = value.if_int64(); number != nullptr && fits(*number)) {
    return *number;
  }
  if (const auto* number = value.if_uint64(); number != nullptr && fits(*number)) {
    return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

std::optional<ConfigValue> text_value(const json::value& value) {
  const auto* text = value.if_string();
  return text != nullptr ? std::optional<ConfigValue>(std::string(*text)) : std::nullopt;
}

std::optional<ConfigValue> duration_value(const json::value& value) {
  const auto* text = value.if_string();
  const auto duration = text != nullptr ? parse_go_duration(*text) : std::nullopt;
  return duration ? std::optional<ConfigValue>(*duration) : std::nullopt;
}

std::optional<ConfigValue> number_value(const json::value& value) {
  if (!value.is_number()) {
    return std::nullopt;
  }
  return ConfigValue(value.to_number<double>());
}

std::optional<ConfigValue> quantity_value(const json::value& value) {
  if (const auto number = whole_within<std::int64_t>(value)) {
    return ConfigValue(std::to_string(*number));
  }
  return text_value(value);
}

std::optional<ConfigValue> scalar_value(FieldType type, const json::value& value) {
  const auto whole = [](std::optional<std::int64_t> number) {
    return number ? std::optional<ConfigValue>(*number) : std::nullopt;
  };
  switch (type) {
    case FieldType::text:
      return text_value(value);
    case FieldType::boolean:
      return value.is_bool() ? std::optional<ConfigValue>(value.as_bool()) : std::nullopt;
    case FieldType::int32:
      return whole(whole_within<std::int32_t>(value));
    case FieldType::uint32:
      return whole(whole_within<std::uint32_t>(value));
    case FieldType::float32:
      return number_value(value);
    case FieldType::duration:
      return duration_value(value);
    case FieldType::log_duration:
      return value.is_number() ? whole(whole_within<std::int64_t>(value)) : duration_value(value);
    case FieldType::quantity:
      return quantity_value(value);
    case FieldType::texts:
    case FieldType::booleans:
      break;
  }
  return std::nullopt;
}

std::optional<ConfigValue> texts_value(const ConfigNode& node) {
  std::vector<std::string> texts;
  for (const auto& element : node.children) {
    const auto* text = element.scalar.if_string();
    if (text == nullptr) {
      return std::nullopt;
    }
    texts.emplace_back(*text);
  }
  return node.kind == ConfigNode::Kind::list ? std::optional<ConfigValue>(texts) : std::nullopt;
}

std::optional<ConfigValue> booleans_value(const ConfigNode& node) {
  std::map<std::string, bool> booleans;
  for (const auto& member : node.children) {
    const auto* boolean = member.scalar.if_bool();
    if (boolean == nullptr) {
      return std::nullopt;
    }
    booleans[member.name] = *boolean;
  }
  return node.kind == ConfigNode::Kind::mapping ? std::optional<ConfigValue>(booleans) : std::nullopt;
}

std::optional<ConfigValue> value_of(FieldType type, const ConfigNode& node) {
  if (type == FieldType::texts) {
    return texts_value(node);
  }
  if (type == FieldType::booleans) {
    return booleans_value(node);
  }
  return node.kind == ConfigNode::Kind::scalar ? scalar_value(type, node.scalar) : std::nullopt;
}

/// A short description of the value found.
std::string found_text(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::mapping:
      return "a mapping";
    case ConfigNode::Kind::list:
      return "a list";
    case ConfigNode::Kind::scalar:
      break;
  }
  if (const auto* text = node.scalar.if_string()) {
    return fmt::format("'{}'", std::string_view(*text).substr(0, 80));
  }
  if (const auto* boolean = node.scalar.if_bool()) {
    return *boolean ? "true" : "false";
  }
  return "a number out of its range or of another kind";
}

class Reader {
 public:
  void read(const ConfigNode& root) {
    if (root.kind != ConfigNode::Kind::mapping) {
      errors_.push_back({root.line, "", "is not a mapping: give it apiVersion, kind and the fields to set"});
      return;
    }
    mapping("", root);
    require("apiVersion", api_version);
    require("kind", kind);
  }

  std::variant<KubeProxyConfig, std::vector<ConfigProblem>> take() {
    if (!errors_.empty()) {
      return std::move(errors_);
    }
    return std::move(config_);
  }

 private:
  void mapping(const std::string& path, const ConfigNode& node) {
    std::set<std::string> seen;
    for (const auto& member : node.children) {
      const auto place = path.empty() ? member.name : fmt::format("{}.{}", path, member.name);
      if (!seen.insert(member.name).second) {
        config_.warnings.push_back(
            {member.line, place, "is given twice, and the last one counts: remove one"});
      }
      member_at(place, member);
    }
  }

  void member_at(const std::string& path, const ConfigNode& node) {
    if (const auto* field = find_field(path)) {
      field_at(*field, node);
    } else if (is_section(path + "[]")) {
      list_at(path, node);
    } else if (!is_section(path)) {
      config_.warnings.push_back(
          {node.line, path, "is not a field of kube-proxy's and is ignored: correct or remove it"});
    } else if (node.kind == ConfigNode::Kind::mapping) {
      mapping(path, node);
    } else if (!node.is_null()) {
      errors_.push_back(
          {node.line, path, fmt::format("is {}; write a mapping of its fields", found_text(node))});
    }
  }

  void list_at(const std::string& path, const ConfigNode& node) {
    for (const auto& element : node.children) {
      if (element.kind == ConfigNode::Kind::mapping) {
        mapping(path + "[]", element);
      } else {
        errors_.push_back({element.line, path, "has an element that is not a mapping of its fields"});
      }
    }
    if (node.kind != ConfigNode::Kind::list && !node.is_null()) {
      errors_.push_back({node.line, path, fmt::format("is {}; write a list", found_text(node))});
    }
  }

  void field_at(const ConfigField& field, const ConfigNode& node) {
    const std::string path(field.path);
    config_.fields.erase(path);
    if (node.is_null()) {
      return;
    }
    if (auto value = value_of(field.type, node)) {
      config_.fields[path] = {std::move(*value), node.line};
    } else {
      errors_.push_back(
          {node.line, path, fmt::format("is {}; write {}", found_text(node), type_text(field.type))});
    }
  }

  void require(std::string_view path, std::string_view wanted) {
    const auto found = config_.fields.find(path);
    const auto* text =
        found == config_.fields.end() ? nullptr : std::get_if<std::string>(&found->second.value);
    if (text == nullptr) {
      errors_.push_back({1, std::string(path), fmt::format("is missing; write {}", wanted)});
    } else if (*text != wanted) {
      errors_.push_back({found->second.line, std::string(path),
                         fmt::format("is '{}', which cannot be read; write {}", *text, wanted)});
    }
  }

  KubeProxyConfig config_;
  std::vector<ConfigProblem> errors_;
};

struct DurationUnit {
  std::string_view name;
  double nanoseconds;
};

/// Of two names with a common prefix the longer comes first. Both spellings of µ are Go's.
constexpr DurationUnit duration_units[] = {{"ns", 1},   {"us", 1e3}, {"\xc2\xb5s", 1e3}, {"\xce\xbcs", 1e3},
                                           {"ms", 1e6}, {"s", 1e9},  {"m", 60e9},        {"h", 3600e9}};

/// Parses one number with its unit at the front of the text and removes it.
std::optional<double> take_duration_part(std::string_view& text) {
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto* end = text.data() + digits;
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (digits == 0 || error != std::errc{} || rest != end) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  for (const auto& unit : duration_units) {
    if (text.starts_with(unit.name)) {
      text.remove_prefix(unit.name.size());
      return number * unit.nanoseconds;
    }
  }
  return std::nullopt;
}

template <class Number>
std::optional<ConfigValue> number_from(std::string_view text) {
  Number number{};
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || rest != end) {
    return std::nullopt;
  }
  if constexpr (std::is_floating_point_v<Number>) {
    return ConfigValue(double{number});
  } else {
    return ConfigValue(std::int64_t{number});
  }
}

/// Accepts the same texts as strconv.ParseBool.
std::optional<ConfigValue> boolean_from(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) {
      return ConfigValue(true);
    }
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) {
      return ConfigValue(false);
    }
  }
  return std::nullopt;
}

std::optional<ConfigValue> booleans_from(std::string_view text) {
  std::map<std::string, bool> booleans;
  for (const auto& piece : split(text)) {
    const auto equals = piece.find('=');
    const auto boolean = equals == std::string::npos
                             ? std::nullopt
                             : boolean_from(boost::algorithm::trim_copy(piece.substr(equals + 1)));
    if (!boolean) {
      return std::nullopt;
    }
    booleans[boost::algorithm::trim_copy(piece.substr(0, equals))] = std::get<bool>(*boolean);
  }
  return ConfigValue(booleans);
}

}  // namespace

std::string problem_text(std::string_view file, const ConfigProblem& problem) {
  auto text = std::string(file);
  if (problem.line > 0) {
    text += fmt::format(":{}", problem.line);
  }
  if (problem.field.empty()) {
    return fmt::format("{} {}", text, problem.reason);
  }
  return fmt::format("{}: {} {}", text, problem.field, problem.reason);
}

std::variant<KubeProxyConfig, std::vector<ConfigProblem>> read_kube_proxy_config(std::string_view text) {
  const auto tree = parse_config_text(text);
  if (const auto* error = std::get_if<ConfigSyntaxError>(&tree)) {
    return std::vector<ConfigProblem>{{error->line, "", error->reason}};
  }
  Reader reader;
  reader.read(std::get<ConfigNode>(tree));
  return reader.take();
}

std::optional<std::int64_t> parse_go_duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  if (text == "0") {
    return 0;
  }
  if (text.empty()) {
    return std::nullopt;
  }
  double sum = 0;
  while (!text.empty()) {
    const auto part = take_duration_part(text);
    if (!part) {
      return std::nullopt;
    }
    sum += *part;
  }
  if (sum >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  const auto nanoseconds = static_cast<std::int64_t>(std::llround(sum));
  return negative ? -nanoseconds : nanoseconds;
}

std::optional<ConfigValue> parse_flag_value(FieldType type, std::string_view text) {
  switch (type) {
    case FieldType::text:
    case FieldType::quantity:
      return ConfigValue(std::string(text));
    case FieldType::boolean:
      return boolean_from(text);
    case FieldType::int32:
      return number_from<std::int32_t>(text);
    case FieldType::uint32:
      return number_from<std::uint32_t>(text);
    case FieldType::float32:
      return number_from<float>(text);
    case FieldType::duration:
    case FieldType::log_duration: {
      const auto duration = parse_go_duration(text);
      return duration ? std::optional<ConfigValue>(*duration) : std::nullopt;
    }
    case FieldType::texts:
      return ConfigValue(split(text));
    case FieldType::booleans:
      break;
  }
  return booleans_from(text);
}

}  // namespace lb::agent
