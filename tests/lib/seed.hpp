// SPDX-License-Identifier: Apache-2.0
// The seed of tests with random input.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace lb::test {

/// SLUICE_SEED if it is set, to repeat a failure; otherwise a new random seed. Print it with a failure.
inline std::uint32_t seed() {
  const char* given = std::getenv("SLUICE_SEED");  // NOLINT(concurrency-mt-unsafe): it is never set
  return given != nullptr ? static_cast<std::uint32_t>(std::stoul(given)) : std::random_device()();
}

}  // namespace lb::test
