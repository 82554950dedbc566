// SPDX-License-Identifier: Apache-2.0
// Addresses, prefixes and keys: parsing, formatting, classification. Usual texts are parsed here, all others
// by the C library.
#include "k8s/objects/model.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace lb::k8s {
namespace {

constexpr std::array<std::uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::uint8_t mapped_bits = 96;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A C string of at most 63 characters, without leading zeros in dotted numbers: inet_pton rejects them, and
/// older API servers have stored them (SEM-89).
class NormalizedText {
 public:
  explicit NormalizedText(std::string_view text) {
    const auto dot = text.find('.');
    const auto dotted = dot == std::string_view::npos ? text.size() : text.rfind(':', dot) + 1;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool leads = length_ == 0 || !is_digit(characters_[length_ - 1]);
      const bool redundant = text[i] == '0' && leads && i + 1 < text.size() && is_digit(text[i + 1]);
      if (i < dotted || !redundant) {
        append(text[i]);
      }
    }
  }

  [[nodiscard]] bool fits() const { return fits_; }
  [[nodiscard]] const char* c_str() const { return characters_.data(); }

 private:
  void append(char c) {
    if (c == '\0' || length_ + 1 == characters_.size()) {
      fits_ = false;
      return;
    }
    characters_[length_++] = c;
  }

  std::array<char, 64> characters_{};
  std::size_t length_ = 0;
  bool fits_ = true;
};

/// Parses a decimal number of up to three digits at the front and removes it; more than 255: there is none.
unsigned take_decimal(std::string_view& text) {
  unsigned value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && digits < 4 && is_digit(text[digits])) {
    value = value * 10 + static_cast<unsigned>(text[digits++] - '0');
  }
  text.remove_prefix(digits);
  return digits >= 1 && digits <= 3 ? value : 256;
}

bool take(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

/// Parses "10.0.0.1". An object may have 100,000 addresses: texts that this does not accept are parsed by the
/// C library, which is five times slower.
bool parse_ipv4(std::string_view text, Address& address) {
  std::ranges::copy(mapped, address.bytes.begin());
  for (std::size_t at = mapped.size(); at < address.bytes.size(); ++at) {
    if (at > mapped.size() && !take(text, '.')) {
      return false;
    }
    const auto value = take_decimal(text);
    if (value > 255) {
      return false;
    }
    address.bytes[at] = static_cast<std::uint8_t>(value);
  }
  return text.empty();
}

constexpr unsigned no_digit = 16;

constexpr unsigned hex_value(char c) {
  if (is_digit(c)) {
    return static_cast<unsigned>(c - '0');
  }
  const auto letter = static_cast<char>(c | 0x20);
  return letter >= 'a' && letter <= 'f' ? static_cast<unsigned>(letter - 'a') + 10 : no_digit;
}

/// Parses up to four hexadecimal digits at the front and removes them; nullopt: there are none, or more.
std::optional<unsigned> take_group(std::string_view& text) {
  unsigned value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && digits < 5 && hex_value(text[digits]) != no_digit) {
    value = value * 16 + hex_value(text[digits++]);
  }
  text.remove_prefix(digits);
  return digits >= 1 && digits <= 4 ? std::optional(value) : std::nullopt;
}

/// Parses "fd00::1:2"; other texts are left to the C library likewise.
bool parse_ipv6(std::string_view text, Address& address) {
  std::array<std::uint8_t, 16> given{};
  std::size_t count = 0;  // bytes
  std::optional<std::size_t> gap;
  while (!text.empty()) {
    if (!gap && text.starts_with("::")) {
      text.remove_prefix(2);
      gap = count;
      if (text.empty()) {
        break;
      }
    } else if (count > 0 && !take(text, ':')) {
      return false;
    }
    const auto group = take_group(text);
    if (!group || count == given.size()) {
      return false;
    }
    given[count++] = static_cast<std::uint8_t>(*group >> 8U);
    given[count++] = static_cast<std::uint8_t>(*group);
  }
  if (gap ? count == given.size() : count != given.size()) {
    return false;
  }
  const auto front = gap.value_or(count);
  address.bytes = {};
  std::copy_n(given.begin(), front, address.bytes.begin());
  std::copy(given.begin() + front, given.begin() + count, address.bytes.end() - (count - front));
  return true;
}

void clear_host_bits(Address& address, unsigned length) {
  for (unsigned byte = 0; byte < address.bytes.size(); ++byte) {
    const unsigned kept = length > byte * 8 ? std::min(8U, length - byte * 8) : 0U;
    address.bytes[byte] &= static_cast<std::uint8_t>(0xff00U >> kept);
  }
}

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || text.empty()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
  Address address;
  if (parse_ipv4(text, address) || parse_ipv6(text, address)) {
    return address;
  }
  const NormalizedText normal(text);
  if (text.empty() || text.size() > 256 || !normal.fits()) {
    return std::nullopt;
  }
  if (text.find(':') != std::string_view::npos) {
    if (inet_pton(AF_INET6, normal.c_str(), address.bytes.data()) == 1) {
      return address;
    }
    return std::nullopt;
  }
  std::ranges::copy(mapped, address.bytes.begin());
  if (inet_pton(AF_INET, normal.c_str(), address.bytes.data() + mapped.size()) == 1) {
    return address;
  }
  return std::nullopt;
}

Family Address::family() const noexcept {
  return std::equal(mapped.begin(), mapped.end(), bytes.begin()) ? Family::ipv4 : Family::ipv6;
}

bool Address::unspecified() const noexcept {
  const auto first = family() == Family::ipv4 ? bytes.begin() + mapped.size() : bytes.begin();
  return std::all_of(first, bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

bool Address::loopback() const noexcept {
  if (family() == Family::ipv4) {
    return bytes[12] == 127;
  }
  return bytes[15] == 1 && std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t b) { return b == 0; });
}

bool Address::link_local() const noexcept {
  if (family() == Family::ipv4) {
    return bytes[12] == 169 && bytes[13] == 254;
  }
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool Address::multicast() const noexcept {
  return family() == Family::ipv4 ? bytes[12] >= 224 && bytes[12] < 240 : bytes[0] == 0xff;
}

bool Address::broadcast() const noexcept {
  return family() == Family::ipv4 && std::all_of(bytes.begin() + mapped.size(), bytes.end(),
                                                 [](std::uint8_t byte) { return byte == 0xff; });
}

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (family() == Family::ipv4) {
    return inet_ntop(AF_INET, bytes.data() + mapped.size(), buffer.data(), buffer.size());
  }
  const bool twelve_zeros = std::all_of(bytes.begin(), bytes.begin() + 12, [](auto b) { return b == 0; });
  if (twelve_zeros && (bytes[12] != 0 || bytes[13] != 0)) {
    // The C library would write ::a.b.c.d, which RFC 5952 reserves for known prefixes.
    return fmt::format("::{:x}:{:x}", bytes[12] << 8 | bytes[13], bytes[14] << 8 | bytes[15]);
  }
  return inet_ntop(AF_INET6, bytes.data(), buffer.data(), buffer.size());
}

std::optional<Prefix> Prefix::parse(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto address = Address::parse(text.substr(0, slash));
  const auto given = number(text.substr(slash + 1));
  if (!address || !given || *given > 128) {
    return std::nullopt;
  }
  const bool dotted_only = text.substr(0, slash).find(':') == std::string_view::npos;
  const unsigned length = dotted_only ? *given + mapped_bits : *given;
  if (length > 128 || (address->family() == Family::ipv4 && length < mapped_bits)) {
    return std::nullopt;
  }
  Prefix prefix{*address, static_cast<std::uint8_t>(length)};
  clear_host_bits(prefix.address, length);
  return prefix;
}

bool Prefix::contains(const Address& other) const noexcept {
  Address masked = other;
  clear_host_bits(masked, length);
  return masked == address && other.family() == address.family();
}

std::string Prefix::text() const {
  const unsigned shown = address.family() == Family::ipv4 ? length - mapped_bits : unsigned{length};
  return fmt::format("{}/{}", address.text(), shown);
}

std::string ObjectKey::text() const { return name_space.empty() ? name : name_space + "/" + name; }

}  // namespace lb::k8s
