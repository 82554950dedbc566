// SPDX-License-Identifier: Apache-2.0
// Parses dates by strptime(), and the fraction of a second, which strptime() does not support, by
// from_chars().
#include "k8s/objects/rfc3339.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <string>

namespace lb::k8s {
namespace {

constexpr std::size_t whole_seconds = 19;  // "2026-01-31T12:00:00"
constexpr std::size_t max_characters = 64;

/// Nanoseconds from the digits at the front of `text`, which are removed; digits after the ninth are ignored.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  const auto length = std::min(text.find_first_not_of("0123456789"), text.size());
  auto digits = std::string(text.substr(0, length));
  digits.resize(9, '0');
  text.remove_prefix(length);
  std::int64_t nanoseconds = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), nanoseconds);
  return length > 0 ? std::optional(nanoseconds) : std::nullopt;
}

/// Offset from UTC in seconds, positive to the east.
std::optional<std::int64_t> zone_of(const std::string& text) {
  std::tm parts{};
  const bool known =
      text == "Z" || (text.size() == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':');
  const char* end = known ? ::strptime(text.c_str(), "%z", &parts) : nullptr;
  return end != nullptr && *end == '\0' ? std::optional<std::int64_t>(parts.tm_gmtoff) : std::nullopt;
}

/// Unix seconds; checks the day, because strptime() accepts 31 days in any month.
std::optional<std::int64_t> unix_seconds(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end != text.c_str() + whole_seconds) {
    return std::nullopt;
  }
  using namespace std::chrono;
  const year_month_day date{year{parts.tm_year + 1900}, month{static_cast<unsigned>(parts.tm_mon) + 1},
                            day{static_cast<unsigned>(parts.tm_mday)}};
  if (!date.ok() || date.year() < year{1678} || date.year() > year{2261}) {
    return std::nullopt;
  }
  const auto moment = sys_days{date} + hours{parts.tm_hour} + minutes{parts.tm_min} + seconds{parts.tm_sec};
  return moment.time_since_epoch() / seconds{1};
}

}  // namespace

std::optional<std::int64_t> unix_nanoseconds(std::string_view text) {
  if (text.size() <= whole_seconds || text.size() > max_characters) {
    return std::nullopt;
  }
  const auto seconds = unix_seconds(std::string(text.substr(0, whole_seconds)));
  text.remove_prefix(whole_seconds);
  std::optional<std::int64_t> fraction = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_fraction(text);
  }
  const auto zone = zone_of(std::string(text));
  if (!seconds || !fraction || !zone) {
    return std::nullopt;
  }
  return (*seconds - *zone) * 1'000'000'000 + *fraction;
}

}  // namespace lb::k8s
