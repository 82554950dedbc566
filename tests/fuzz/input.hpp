// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: reading choices from the start of the input, and failing an oracle.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

// Each target defines it; libFuzzer prescribes the name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace lb::fuzz {

/// Aborts the run if an oracle does not hold; libFuzzer then keeps the input.
inline void require(bool holds, std::string_view what) {
  if (!holds) {
    fmt::print(stderr, "oracle: {}\n", what);
    std::abort();
  }
}

/// An input that is consumed from its front.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  /// The next byte; 0 if none is left.
  [[nodiscard]] std::uint8_t byte() {
    const auto taken = front(1);
    return taken.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(taken.front());
  }
  /// As many bytes as the next byte says, or all that are left.
  [[nodiscard]] std::string_view counted() { return front(byte()); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view front(std::size_t size) {
    const auto taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
};

/// Passes `text` to each(piece, bytes so far) in pieces of these sizes, which are repeated (none: single
/// bytes), while it returns true. Every piece has its own allocation, so that a sanitizer detects a read
/// beyond it or after it.
template <typename Each>
void in_pieces(std::string_view text, std::string_view sizes, Each each) {
  for (std::size_t at = 0, i = 0; at < text.size(); ++i) {
    const std::size_t wanted = sizes.empty() ? 1 : static_cast<unsigned char>(sizes[i % sizes.size()]);
    const auto size = std::min(text.size() - at, std::max<std::size_t>(wanted, 1));
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
    const std::vector<char> piece(from, from + static_cast<std::ptrdiff_t>(size));
    at += size;
    if (!each(std::string_view(piece.data(), piece.size()), at)) {
      return;
    }
  }
}

}  // namespace lb::fuzz
