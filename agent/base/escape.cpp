// SPDX-License-Identifier: Apache-2.0
// Decides which bytes and characters are escaped.
#include "agent/base/escape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "k8s/encoding/decode.hpp"

namespace lb::agent {
namespace {

struct Span {
  char32_t first;
  char32_t last;
};

/// Above ASCII: characters of Unicode's general categories Cc, Cf, Zl and Zp that are not part of written
/// words.
constexpr std::array<Span, 10> hidden = {{
    {0x80, 0x9f},        // C1 controls
    {0xad, 0xad},        // soft hyphen
    {0x61c, 0x61c},      // Arabic letter mark
    {0x180e, 0x180e},    // Mongolian vowel separator
    {0x200b, 0x200f},    // no width; left-to-right and right-to-left mark
    {0x2028, 0x202e},    // separators of lines and paragraphs; embeddings and overrides of direction
    {0x2060, 0x206f},    // no width; isolates of direction
    {0xfeff, 0xfeff},    // byte order mark
    {0xfff9, 0xfffb},    // interlinear annotations
    {0xe0000, 0xe007f},  // tags
}};

bool is_hidden(char32_t point) {
  return std::ranges::any_of(hidden,
                             [point](const Span& span) { return span.first <= point && point <= span.last; });
}

struct Character {
  char32_t point = 0;
  std::size_t size = 1;
};

/// The character at `at` of a valid UTF-8 text.
Character character_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t point = size == 1 ? lead : lead & (0xffU >> (size + 1));
  for (std::size_t next = 1; next < size; ++next) {
    point = point << 6U | (static_cast<unsigned char>(text[at + next]) & 0x3fU);
  }
  return {point, size};
}

void append_escape(std::string& words, char32_t point) {
  const auto number = static_cast<std::uint32_t>(point);
  if (point == '\n' || point == '\r') {
    words += point == '\n' ? "\\n" : "\\r";
  } else {
    const auto* form = point < 0x80 ? "\\x{:02x}" : point < 0x10000 ? "\\u{:04x}" : "\\U{:08x}";
    fmt::format_to(std::back_inserter(words), fmt::runtime(form), number);
  }
}

bool is_control(char32_t point) { return (point < 0x20 && point != '\t') || point == 0x7f; }

void append_bytes(std::string& words, std::string_view text) {
  for (const auto each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte >= 0x80) {
      fmt::format_to(std::back_inserter(words), "\\x{:02x}", byte);
    } else if (is_control(byte)) {
      append_escape(words, byte);
    } else {
      words += each;
    }
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string words;
  words.reserve(text.size());
  if (!k8s::valid_utf8(text)) {
    append_bytes(words, text);
    return words;
  }
  for (std::size_t at = 0; at < text.size();) {
    const auto [point, size] = character_at(text, at);
    if (is_control(point) || is_hidden(point)) {
      append_escape(words, point);
    } else {
      words += text.substr(at, size);
    }
    at += size;
  }
  return words;
}

}  // namespace lb::agent
