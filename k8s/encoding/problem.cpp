// SPDX-License-Identifier: Apache-2.0
// Formats positions inside objects, and limits the number of recorded problems.
#include "k8s/encoding/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "k8s/encoding/decode.hpp"

namespace lb::k8s {
namespace {

constexpr std::size_t max_reason_bytes = 300;

/// JSON pointer escapes: "~" is "~0", "/" is "~1".
void append_escaped(std::string& out, std::string_view member) {
  for (const char c : member) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
}

std::string unescaped(std::string_view step) {
  std::string out;
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size()) {
      out += step[++i] == '1' ? '/' : '~';
    } else {
      out += step[i];
    }
  }
  return out;
}

bool is_index(std::string_view step) {
  return !step.empty() && std::ranges::all_of(step, [](char c) { return c >= '0' && c <= '9'; });
}

/// Sanitizes reasons, which quote untrusted text: no control characters, limited length, and valid UTF-8
/// (which protobuf does not enforce).
std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  if (!valid_utf8(text)) {
    std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  if (text.size() > max_reason_bytes) {
    text.resize(start_of(text, max_reason_bytes).size());
    text += "...";
  }
  return text;
}

}  // namespace

std::string_view start_of(std::string_view text, std::size_t max_bytes) {
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80;
  };
  auto size = std::min(text.size(), max_bytes);
  while (size > 0 && size < text.size() && continues(size)) {
    --size;
  }
  return text.substr(0, size);
}

std::string field_path(std::string_view pointer) {
  std::string out;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const auto end = std::min(pointer.find('/'), pointer.size());
    const auto step = pointer.substr(0, end);
    if (is_index(step)) {
      out += fmt::format("[{}]", step);
    } else {
      out += (out.empty() ? "" : ".") + unescaped(step);
    }
    pointer.remove_prefix(end);
  }
  return out;
}

std::string Problems::pointer() const {
  std::string out;
  for (const auto& step : steps_) {
    out += '/';
    if (step.member.empty()) {
      out += std::to_string(step.element);
    } else {
      append_escaped(out, step.member);
    }
  }
  return out;
}

void Problems::add(std::string reason) {
  if (problems_.size() == kept) {
    ++more_;
    return;
  }
  problems_.push_back({pointer(), printable(std::move(reason))});
}

void Problems::add(std::string_view member, std::string reason) {
  const Step step(*this, member);
  add(std::move(reason));
}

std::vector<Problem> Problems::take() {
  if (more_ > 0) {
    problems_.push_back({"", fmt::format("{} more problems like these", more_)});
    more_ = 0;
  }
  return std::exchange(problems_, {});
}

}  // namespace lb::k8s
