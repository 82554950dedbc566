// SPDX-License-Identifier: Apache-2.0
// One ioctl and one file of sysfs a device.
#include "agent/attach/skipped_xdp.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "agent/attach/device_kind.hpp"
#include "agent/base/read_file.hpp"

namespace lb::agent {
namespace {

/// The features of the virtio device at that place of the PCI bus, whatever network namespace its network
/// device is in.
std::string features_at(const std::string& bus_info) {
  const std::filesystem::path place = "/sys/bus/pci/devices/" + bus_info;
  std::error_code error;
  for (std::filesystem::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with("virtio")) {
      return first_line(at->path() / "features");
    }
  }
  return {};
}

}  // namespace

bool virtio_skips_xdp(std::string_view features) {
  using namespace virtio;
  constexpr std::array<std::size_t, 4> host_segments = {guest_tso4, guest_tso6, guest_ecn, guest_ufo};
  const auto has = [&](std::size_t bit) { return bit < features.size() && features[bit] == '1'; };
  return !has(mrg_rxbuf) && std::ranges::any_of(host_segments, has);
}

std::string skipped_xdp(const std::string& device) {
  const auto driver = driver_info(device);
  return driver.name == "virtio_net" && virtio_skips_xdp(features_at(driver.bus))
             ? "its driver takes an XDP program and never runs it (virtio_net, buffers that are not merged)"
             : std::string();
}

}  // namespace lb::agent
