// SPDX-License-Identifier: Apache-2.0
// The scanner recognizes only brackets and quotes; cut_object() only objects and lists.
#include "k8s/encoding/framing.hpp"

#include <array>

namespace lb::k8s {
namespace {

enum Class : unsigned char { plain, quote, open, close, backslash };

constexpr std::array<Class, 256> classes() {
  std::array<Class, 256> table{};
  table['"'] = quote;
  table['{'] = table['['] = open;
  table['}'] = table[']'] = close;
  table['\\'] = backslash;
  return table;
}

constexpr auto class_table = classes();

Class class_of(char c) { return class_table[static_cast<unsigned char>(c)]; }

bool ends_word(char c) {
  return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == ':';
}

}  // namespace

std::size_t ValueScanner::begin(std::string_view piece) {
  switch (class_of(piece.front())) {
    case quote:
      inside_ = Inside::string;
      return 1;
    case open:
      inside_ = Inside::structure;
      return 0;
    default:
      inside_ = Inside::word;
      return 0;
  }
}

std::size_t ValueScanner::structure(std::string_view piece, std::size_t at) {
  for (; at < piece.size(); ++at) {
    switch (class_of(piece[at])) {
      case quote:
        inside_ = Inside::string;
        return at + 1;
      case open:
        ++depth_;
        break;
      case close:
        if (--depth_ == 0) {
          inside_ = Inside::nothing;
          return at + 1;
        }
        break;
      default:
        break;
    }
  }
  return at;
}

std::size_t ValueScanner::string(std::string_view piece, std::size_t at) {
  for (; at < piece.size(); ++at) {
    const auto c = class_of(piece[at]);
    if (c == quote) {
      inside_ = depth_ == 0 ? Inside::nothing : Inside::structure;
      return at + 1;
    }
    if (c == backslash) {
      inside_ = Inside::escape;
      return at + 1;
    }
  }
  return at;
}

std::optional<std::size_t> ValueScanner::scan(std::string_view piece) {
  std::size_t at = inside_ == Inside::nothing && !piece.empty() ? begin(piece) : 0;
  while (at < piece.size()) {
    switch (inside_) {
      case Inside::structure:
        at = structure(piece, at);
        break;
      case Inside::string:
        at = string(piece, at);
        break;
      case Inside::escape:
        inside_ = Inside::string;
        ++at;
        break;
      case Inside::word:
        inside_ = ends_word(piece[at]) ? Inside::nothing : Inside::word;
        at += inside_ == Inside::word ? 1 : 0;
        break;
      case Inside::nothing:
        return at;
    }
    if (inside_ == Inside::nothing) {
      return at;
    }
  }
  return std::nullopt;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  const auto found = text.find_first_not_of(" \t\r\n", at);
  return found == std::string_view::npos ? text.size() : found;
}

bool JsonCursor::take(char wanted) {
  if (!next_is(wanted)) {
    return false;
  }
  at_ = skip_space(text_, at_ + 1);
  return true;
}

std::string_view JsonCursor::value() {
  const auto rest = broken_ ? std::string_view{} : text_.substr(at_);
  ValueScanner scanner;
  auto length = scanner.scan(rest);
  if (!length && scanner.may_end()) {
    length = rest.size();
  }
  if (!length || *length == 0) {
    broken_ = true;
    return {};
  }
  at_ = skip_space(text_, at_ + *length);
  return rest.substr(0, *length);
}

std::string_view JsonCursor::string() {
  broken_ = broken_ || !next_is('"');
  const auto quoted = value();
  return broken_ ? std::string_view{} : quoted.substr(1, quoted.size() - 2);
}

namespace {

void cut_items(JsonCursor& cutter, Cut& cut) {
  cut.has_items = true;
  cutter.expect('[');
  if (cutter.take(']')) {
    return;
  }
  do {
    const auto item = cutter.value();
    if (!cutter.broken()) {
      cut.items.push_back(item);
    }
  } while (cutter.take(','));
  cutter.expect(']');
}

std::string_view text_or_nothing(JsonCursor& cutter) {
  if (cutter.next_is('"')) {
    return cutter.string();
  }
  (void)cutter.value();
  return {};
}

void cut_member(JsonCursor& cutter, Cut& cut) {
  const auto name = cutter.string();
  cutter.expect(':');
  if (name == "items" && cutter.next_is('[')) {
    cut_items(cutter, cut);
    return;
  }
  const auto value = text_or_nothing(cutter);
  if (name == "kind") {
    cut.kind = value;
  } else if (name == "apiVersion") {
    cut.api_version = value;
  }
}

}  // namespace

Cut cut_object(std::string_view text) {
  Cut cut;
  JsonCursor cutter(text);
  cutter.expect('{');
  if (!cutter.next_is('}')) {
    do {
      cut_member(cutter, cut);
    } while (cutter.take(','));
  }
  cut.end = cutter.at() + 1;
  cutter.expect('}');
  if (cutter.broken()) {
    cut.broken_at = cutter.at();
  }
  return cut;
}

}  // namespace lb::k8s
