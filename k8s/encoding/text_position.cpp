// SPDX-License-Identifier: Apache-2.0
// Walks JSON text by framing's cursor; does not interpret it.
#include "k8s/encoding/text_position.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "k8s/encoding/framing.hpp"

namespace lb::k8s {
namespace {

constexpr int max_depth = 100;

/// Compares a member's name, with escapes unchanged, with one step of a pointer.
bool names(std::string_view member, std::string_view step) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < step.size(); ++i, ++at) {
    char wanted = step[i];
    if (wanted == '~' && i + 1 < step.size()) {
      wanted = step[++i] == '1' ? '/' : '~';
    }
    if (at >= member.size() || member[at] != wanted) {
      return false;
    }
  }
  return at == member.size();
}

bool step_into_object(JsonCursor& cursor, std::string_view step) {
  while (!cursor.broken() && !cursor.next_is('}')) {
    const auto name = cursor.string();
    cursor.expect(':');
    if (names(name, step)) {
      return !cursor.broken();
    }
    (void)cursor.value();
    (void)cursor.take(',');
  }
  return false;
}

bool step_into_array(JsonCursor& cursor, std::string_view step) {
  std::size_t index = 0;
  const auto [stop, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (error != std::errc{} || stop != step.data() + step.size()) {
    return false;
  }
  for (; index > 0 && !cursor.broken(); --index) {
    (void)cursor.value();
    (void)cursor.take(',');
  }
  return !cursor.broken() && !cursor.next_is(']');
}

bool good_string(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

bool good_scalar(std::string_view text) {
  if (text == "true" || text == "false" || text == "null") {
    return true;
  }
  if (text.starts_with('"')) {
    return good_string(text);
  }
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error != std::errc::invalid_argument && stop == text.data() + text.size();
}

void check(JsonCursor& cursor, std::size_t& bad, int depth);

void check_scalar(JsonCursor& cursor, std::size_t& bad) {
  const auto begin = cursor.at();
  const auto value = cursor.value();
  if (!cursor.broken() && !good_scalar(value)) {
    bad = begin;
  }
}

void check_array(JsonCursor& cursor, std::size_t& bad, int depth) {
  if (cursor.take(']')) {
    return;
  }
  do {
    check(cursor, bad, depth);
  } while (bad == std::string_view::npos && cursor.take(','));
  if (bad == std::string_view::npos) {
    cursor.expect(']');
  }
}

void check_object(JsonCursor& cursor, std::size_t& bad, int depth) {
  if (cursor.take('}')) {
    return;
  }
  do {
    const auto begin = cursor.at();
    if (!good_string(cursor.string())) {
      bad = begin;
      return;
    }
    cursor.expect(':');
    check(cursor, bad, depth);
  } while (bad == std::string_view::npos && cursor.take(','));
  if (bad == std::string_view::npos) {
    cursor.expect('}');
  }
}

/// Sets `bad` to the first invalid value, or breaks the cursor at the first misplaced token.
void check(JsonCursor& cursor, std::size_t& bad, int depth) {
  if (depth == max_depth) {
    bad = cursor.at();
  } else if (cursor.take('{')) {
    check_object(cursor, bad, depth + 1);
  } else if (cursor.take('[')) {
    check_array(cursor, bad, depth + 1);
  } else {
    check_scalar(cursor, bad);
  }
}

}  // namespace

std::size_t locate(std::string_view json, std::string_view pointer) {
  JsonCursor cursor(json);
  std::size_t found_at = cursor.at();
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const auto end = std::min(pointer.find('/'), pointer.size());
    const auto step = pointer.substr(0, end);
    const bool found = cursor.take('{')   ? step_into_object(cursor, step)
                       : cursor.take('[') ? step_into_array(cursor, step)
                                          : false;
    if (!found) {
      break;
    }
    found_at = cursor.at();
    pointer.remove_prefix(end);
  }
  return found_at;
}

std::size_t syntax_error_at(std::string_view json) {
  JsonCursor cursor(json);
  std::size_t bad = std::string_view::npos;
  check(cursor, bad, 0);
  return bad != std::string_view::npos ? bad : cursor.at();
}

bool is_json(std::string_view text) {
  JsonCursor cursor(text);
  std::size_t bad = std::string_view::npos;
  check(cursor, bad, 0);
  return bad == std::string_view::npos && !cursor.broken() && cursor.at() == text.size();
}

std::size_t line_at(std::string_view text, std::size_t at) {
  return static_cast<std::size_t>(std::ranges::count(text.substr(0, at), '\n'));
}

}  // namespace lb::k8s
