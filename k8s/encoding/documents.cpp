// SPDX-License-Identifier: Apache-2.0
// Splits files at document markers and lists at their items; parses nothing itself.
#include "k8s/encoding/documents.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "k8s/encoding/decode.hpp"
#include "k8s/encoding/framing.hpp"
#include "k8s/encoding/text_position.hpp"
#include "k8s/encoding/yaml.hpp"

namespace lb::k8s {
namespace {

std::size_t after_line(std::string_view text, std::size_t at) {
  return std::min(text.find('\n', at), text.size() - 1) + 1;
}

std::string_view line_of(std::string_view text, std::size_t at) {
  const auto end = std::min(text.find('\n', at), text.size());
  return text.substr(at, end - at);
}

/// Line numbers of ascending offsets, without counting from the start each time.
class Lines {
 public:
  Lines(std::string_view text, std::size_t first) : text_(text), line_(first) {}

  std::size_t of(std::size_t at) {
    line_ += line_at(text_.substr(counted_), at - counted_);
    counted_ = at;
    return line_;
  }

 private:
  std::string_view text_;
  std::size_t line_;
  std::size_t counted_ = 0;
};

/// Reports a whole object: its items if it is a list, else itself.
void report_object(std::string_view json, const Cut& cut, Lines& lines, std::size_t offset,
                   DocumentVisitor& visitor) {
  if (!cut.has_items || !cut.kind.ends_with("List")) {
    if (!cut.broken_at) {
      visitor.object(json, Kind::other, lines.of(offset));
    }
    return;
  }
  for (const auto item : cut.items) {
    const auto at = static_cast<std::size_t>(item.data() - json.data());
    visitor.object(item, item_kind(cut.kind), lines.of(offset + at));
  }
}

/// Reads any number of consecutive JSON objects.
void read_json(std::string_view text, std::size_t first_line, DocumentVisitor& visitor) {
  Lines lines(text, first_line);
  for (auto at = skip_space(text, 0); at < text.size(); at = skip_space(text, at)) {
    const auto rest = text.substr(at);
    const auto cut = cut_object(rest);
    report_object(rest.substr(0, cut.broken_at.value_or(cut.end)), cut, lines, at, visitor);
    if (cut.broken_at) {
      const auto where = at + syntax_error_at(rest);
      const auto* reason = rest.front() != '{'    ? "is not a JSON object"
                           : where == text.size() ? "ends in the middle of a JSON object"
                                                  : "is not valid JSON";
      visitor.broken(first_line + line_at(text, std::min(where, text.size() - 1)), reason);
      return;
    }
    at += cut.end;
  }
}

void read_yaml(std::string_view text, std::size_t first_line, DocumentVisitor& visitor) {
  auto result = yaml_to_json(text);
  if (!result.error.empty()) {
    visitor.broken(first_line + result.line, std::move(result.error));
    return;
  }
  const auto begin = skip_space(result.json, 0);
  if (std::string_view(result.json).substr(begin) == "null") {
    return;
  }
  if (result.json[begin] != '{') {
    visitor.broken(first_line, "is not an object: a mapping with apiVersion, kind and metadata is expected");
    return;
  }
  read_json(result.json, first_line, visitor);
}

std::size_t first_bad_line(std::string_view text) {
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size() && valid_utf8(line_of(text, at)); at = after_line(text, at)) {
    ++line;
  }
  return line;
}

void read_document(std::string_view text, std::size_t first_line, Format format, DocumentVisitor& visitor) {
  const auto begin = skip_space(text, 0);
  if (begin == text.size()) {
    return;
  }
  if (!valid_utf8(text)) {
    visitor.broken(first_line + first_bad_line(text), "is not UTF-8");
    return;
  }
  const bool json = format == Format::json || (text[begin] == '{' && is_json(text));
  if (json) {
    read_json(text, first_line, visitor);
  } else {
    read_yaml(text, first_line, visitor);
  }
}

/// Whether the line is "---", alone or followed by white space; the rest of the line belongs to the document.
bool begins_document(std::string_view line) {
  return line.starts_with("---") &&
         (line.size() == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r');
}

bool ends_document(std::string_view line) { return line == "..." || line == "...\r"; }

/// Directives and remaining end markers belong to no document.
bool stands_before(std::string_view line) { return line.starts_with('%') || ends_document(line); }

/// The document that begins at `at`: its text begins after the markers and directives before it.
struct Extent {
  std::size_t begin;
  std::size_t end;
  std::size_t next;
};

Extent document_extent(std::string_view text, std::size_t at) {
  while (at < text.size() && stands_before(line_of(text, at))) {
    at = after_line(text, at);
  }
  if (at < text.size() && begins_document(line_of(text, at))) {
    at += 3;
  }
  const auto begin = at;
  at = at < text.size() ? after_line(text, at) : at;
  while (at < text.size() && !begins_document(line_of(text, at))) {
    if (ends_document(line_of(text, at))) {
      return {begin, at, after_line(text, at)};
    }
    at = after_line(text, at);
  }
  return {begin, at, at};
}

}  // namespace

void read_documents(std::string_view text, Format format, DocumentVisitor& visitor) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
  }
  Lines lines(text, 1);
  for (std::size_t at = 0; at < text.size();) {
    const auto extent = document_extent(text, at);
    read_document(text.substr(extent.begin, extent.end - extent.begin), lines.of(extent.begin), format,
                  visitor);
    at = extent.next;
  }
}

}  // namespace lb::k8s
