// SPDX-License-Identifier: Apache-2.0
// Converts YAML events to JSON text one by one; an anchor records the part of the text that it names.
#include "k8s/encoding/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

namespace lb::k8s {
namespace {

constexpr std::size_t max_depth = 100;
constexpr std::size_t max_alias_bytes = 4U << 20U;

constexpr std::string_view core_tag = "tag:yaml.org,2002:";

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

template <typename Number>
std::optional<Number> parse_integer(std::string_view digits, int base) {
  Number value{};
  const auto [stop, error] = std::from_chars(digits.begin(), digits.end(), value, base);
  return error == std::errc{} && stop == digits.end() && !digits.empty() ? std::optional(value)
                                                                         : std::nullopt;
}

std::optional<std::string> json_integer(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0o")) {
    const auto value = parse_integer<std::uint64_t>(text.substr(2), text[1] == 'x' ? 16 : 8);
    return value ? std::optional(std::to_string(*value)) : std::nullopt;
  }
  const auto unsigned_text = text.starts_with('+') ? text.substr(1) : text;
  if (unsigned_text.starts_with('-') && unsigned_text.size() != text.size()) {
    return std::nullopt;
  }
  const auto value = parse_integer<std::int64_t>(unsigned_text, 10);
  return value ? std::optional(std::to_string(*value)) : std::nullopt;
}

/// The core schema's floats, except .inf and .nan, which JSON does not have.
std::optional<std::string> json_float(std::string_view text) {
  const auto digits = text.starts_with('+') ? text.substr(1) : text;
  const bool number_like = !digits.empty() && !(digits.front() == '-' && digits.size() != text.size()) &&
                           digits.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
  double value = 0;
  const auto [stop, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (!number_like || error != std::errc{} || stop != digits.end() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return fmt::format("{:.17e}", value);
}

/// Converts a plain scalar by the core schema.
std::string json_plain(std::string_view text) {
  if (one_of(text, {"", "~", "null", "Null", "NULL"})) {
    return "null";
  }
  if (one_of(text, {"true", "True", "TRUE"})) {
    return "true";
  }
  if (one_of(text, {"false", "False", "FALSE"})) {
    return "false";
  }
  if (const auto integer = json_integer(text)) {
    return *integer;
  }
  if (const auto number = json_float(text)) {
    return *number;
  }
  return json_string(text);
}

enum class Scalar : std::uint8_t { plain, text, unknown };

/// The tag "?" is an untagged plain scalar, "!" a quoted one.
Scalar scalar_of(std::string_view tag) {
  if (tag.empty() || tag == "?") {
    return Scalar::plain;
  }
  if (tag == "!") {
    return Scalar::text;
  }
  if (!tag.starts_with(core_tag)) {
    return Scalar::unknown;
  }
  const auto name = tag.substr(core_tag.size());
  if (one_of(name, {"int", "float", "bool", "null"})) {
    return Scalar::plain;
  }
  return one_of(name, {"str", "timestamp"}) ? Scalar::text : Scalar::unknown;
}

/// Writes JSON. After the first error it ignores further events: the parser cannot be stopped.
class Writer final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { scalar(mark, anchor, "null", ""); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const auto kind = scalar_of(tag);
    if (kind == Scalar::unknown) {
      fail(mark, fmt::format("has the unknown tag {}", tag));
      return;
    }
    scalar(mark, anchor, kind == Scalar::plain && !at_key() ? json_plain(value) : json_string(value),
           kind == Scalar::plain ? std::string_view(value) : "");
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, '[');
  }
  void OnSequenceEnd() override { close(']'); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, '{');
  }
  void OnMapEnd() override { close('}'); }

  void fail(const YAML::Mark& mark, std::string reason) {
    if (result_.error.empty()) {
      result_.error = std::move(reason);
      result_.line = mark.line < 0 ? line_ : static_cast<std::size_t>(mark.line);
    }
  }

  [[nodiscard]] YamlResult take() { return std::move(result_); }

 private:
  struct Level {
    bool map;
    std::size_t entries;  ///< keys and values are counted separately
    YAML::anchor_t anchor;
    std::size_t begin;
  };
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  [[nodiscard]] bool failed() const { return !result_.error.empty(); }
  [[nodiscard]] bool at_key() const {
    return !levels_.empty() && levels_.back().map && levels_.back().entries % 2 == 0;
  }

  void scalar(const YAML::Mark& mark, YAML::anchor_t anchor, std::string_view json, std::string_view plain);
  void open(const YAML::Mark& mark, YAML::anchor_t anchor, char bracket);
  void close(char bracket);
  void before_value(const YAML::Mark& mark);
  void name(YAML::anchor_t anchor, std::size_t begin);

  YamlResult result_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, Range> anchors_;
  std::size_t line_ = 0;
  std::size_t alias_bytes_ = 0;
};

/// Writes punctuation, and line ends until the JSON is on the document's line.
void Writer::before_value(const YAML::Mark& mark) {
  auto& out = result_.json;
  if (!levels_.empty()) {
    auto& level = levels_.back();
    const bool is_value = level.map && level.entries % 2 == 1;
    if (level.entries > 0) {
      out += is_value ? ':' : ',';
    }
    ++level.entries;
  }
  for (; mark.line >= 0 && line_ < static_cast<std::size_t>(mark.line); ++line_) {
    out += '\n';
  }
}

void Writer::name(YAML::anchor_t anchor, std::size_t begin) {
  if (anchor != 0) {
    anchors_[anchor] = {begin, result_.json.size()};
  }
}

void Writer::scalar(const YAML::Mark& mark, YAML::anchor_t anchor, std::string_view json,
                    std::string_view plain) {
  if (at_key() && plain == "<<") {
    fail(mark, "uses a merge key (<<), which YAML 1.2 does not have: write the members out");
  }
  if (failed()) {
    return;
  }
  const bool null_key = at_key() && json == "null";
  before_value(mark);
  const auto begin = result_.json.size();
  result_.json += null_key ? "\"null\"" : json;
  name(anchor, begin);
}

void Writer::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  if (failed()) {
    return;
  }
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    fail(mark, "has an alias that refers to a node which contains it");
    return;
  }
  std::string copy = result_.json.substr(found->second.begin, found->second.end - found->second.begin);
  std::erase(copy, '\n');
  alias_bytes_ += copy.size();
  if (alias_bytes_ > max_alias_bytes) {
    fail(mark, "has aliases that would make it larger by more than 4 MiB");
  } else if (at_key() && !copy.starts_with('"')) {
    fail(mark, "has an alias as key that is not a string");
  } else {
    before_value(mark);
    result_.json += copy;
  }
}

void Writer::open(const YAML::Mark& mark, YAML::anchor_t anchor, char bracket) {
  if (at_key()) {
    fail(mark, "has a key that is not a scalar");
  } else if (levels_.size() == max_depth) {
    fail(mark, "is nested more than 100 levels deep");
  }
  if (failed()) {
    return;
  }
  before_value(mark);
  levels_.push_back({bracket == '{', 0, anchor, result_.json.size()});
  result_.json += bracket;
}

void Writer::close(char bracket) {
  if (failed()) {
    return;
  }
  result_.json += bracket;
  const auto level = levels_.back();
  levels_.pop_back();
  name(level.anchor, level.begin);
}

}  // namespace

YamlResult yaml_to_json(std::string_view yaml) {
  Writer writer;
  try {
    // Without the end marker an unterminated quote would be accepted at the end of the file.
    std::istringstream stream{std::string(yaml) + "\n...\n"};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(writer);
    if (parser.HandleNextDocument(writer)) {
      writer.fail(YAML::Mark::null_mark(), "holds a second document without a line of --- before it");
    }
  } catch (const YAML::Exception& problem) {
    writer.fail(problem.mark, fmt::format("is not valid YAML: {}", problem.msg));
  } catch (const std::exception& problem) {
    writer.fail(YAML::Mark::null_mark(), fmt::format("is not valid YAML: {}", problem.what()));
  }
  auto result = writer.take();
  // An unterminated quote is detected only at the marker.
  const auto lines = std::ranges::count(yaml.substr(0, yaml.find_last_not_of('\n') + 1), '\n');
  result.line = std::min(result.line, static_cast<std::size_t>(lines));
  return result;
}

}  // namespace lb::k8s
