// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/open_maps.hpp"

#include <fmt/format.h>

#include <utility>

#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"

namespace lb::agent {
namespace {

std::unique_ptr<maps::KernelGrace> open_grace(maps::Post post) {
  auto opened = maps::KernelGrace::open(std::move(post));
  if (!opened) {
    throw StartError(fmt::format("cannot wait for grace periods: {}; run as root", opened.error().message()));
  }
  return std::move(*opened);
}

}  // namespace

maps::MapSet open_maps(const maps::Pins& pins, maps::Access access) {
  auto opened = maps::MapSet::open(pins, access);
  if (!opened) {
    throw StartError(opened.error().message());
  }
  return std::move(*opened);
}

OpenMaps::OpenMaps(const maps::Pins& pins, std::uint32_t hertz, const maps::Post& post)
    : set(open_maps(pins, maps::Access::write)),
      store(set.store()),
      grace(open_grace(post)),
      sweeper({set.unassured4, set.unassured6, set.flows4, set.flows6, &set.affinity}, post,
              {[hertz] { return flow_clock_now(hertz); }, LB_UNASSURED_SECONDS}),
      flow_counter(set, post) {}

}  // namespace lb::agent
