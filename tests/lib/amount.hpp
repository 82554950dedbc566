// SPDX-License-Identifier: Apache-2.0
// How often tests repeat: number of random packets, rounds of a race.
#pragma once

#include <cstdlib>

namespace lb::test {

/// `usual`; `most` with --long; a fiftieth of `usual` on an emulated processor (SLUICE_EMULATED), which is
/// thirty times slower.
template <class Number>
[[nodiscard]] Number amount(Number usual, Number most) {
  if (std::getenv("SLUICE_LONG") != nullptr) {
    return most;
  }
  return std::getenv("SLUICE_EMULATED") != nullptr ? usual / 50 : usual;
}

}  // namespace lb::test
