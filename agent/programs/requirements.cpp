// SPDX-License-Identifier: Apache-2.0
// Devices, the cluster's secret, descriptors.
#include "agent/programs/requirements.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "agent/base/error.hpp"
#include "agent/base/read_file.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

/// Number of descriptors that checking hooks needs at the same time.
constexpr std::size_t spare_descriptors = 4;

}  // namespace

void require_devices(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (if_nametoindex(name.c_str()) == 0) {
      throw StartError(fmt::format("there is no network device {}", name), "name the uplinks with --devices");
    }
  }
  if (names.size() > LB_MAX_DEVICES) {
    throw StartError(fmt::format("{} devices are too many", names.size()),
                     fmt::format("at most {} can be served", LB_MAX_DEVICES));
  }
}

std::string read_secret(const std::string& path) {
  constexpr std::size_t min_bytes = 16;
  if (path.empty()) {
    return {};
  }
  auto secret = read_file(path);
  if (secret.size() < min_bytes) {
    throw StartError(
        fmt::format("the file --cluster-secret {} cannot be read or has less than {} bytes", path, min_bytes),
        "make one of random bytes, the same on every node");
  }
  return secret;
}

std::string descriptor_shortage() {
  std::array<maps::Fd, spare_descriptors> spare;
  for (auto& each : spare) {
    each = maps::Fd(::eventfd(0, EFD_CLOEXEC));
    if (!each) {
      return std::strerror(errno);
    }
  }
  return {};
}

}  // namespace lb::agent
