// The seed of tests with random input.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace lb::test {

/// SLUICE_SEED where the environment has it, so that what failed can be seen again; a new one otherwise.
/// Print it beside what fails.
inline std::uint32_t seed() {
  const char* given = std::getenv("SLUICE_SEED");  // NOLINT(concurrency-mt-unsafe): it is never set
  return given != nullptr ? static_cast<std::uint32_t>(std::stoul(given)) : std::random_device()();
}

}  // namespace lb::test
