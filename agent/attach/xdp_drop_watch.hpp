// SPDX-License-Identifier: Apache-2.0
// Detects devices that drop every frame that XDP redirects to them (REL-20): a veth whose peer does not poll
// (NAPI), a card without queues for it. The kernel reports such drops only by tracepoints.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "maps/abi/xdp_tx.h"
#include "maps/map.hpp"

namespace lb::agent {

class XdpDropWatch {
 public:
  /// `programs` count into `counts` (bpf/lb_watch.bpf.c) while this object lives; -1: no such program.
  XdpDropWatch(const std::vector<int>& programs, std::span<lb_xdp_tx> counts);

  /// Counts frames of these devices from now on, as many devices as `counts` has room for.
  void follow(const std::vector<std::uint32_t>& devices);
  /// Followed devices that had frames since the last call and dropped all of them.
  [[nodiscard]] std::vector<std::uint32_t> dropping();
  /// Frames dropped since the start, by device name, at the last call of dropping(); includes devices that
  /// are no longer followed.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& lost() const noexcept { return lost_; }

 private:
  struct Seen {
    std::string name;
    std::uint64_t sent = 0;
    std::uint64_t lost = 0;
  };

  std::vector<maps::Fd> links_;
  std::span<lb_xdp_tx> counts_;
  std::map<std::uint32_t, Seen> seen_;
  std::map<std::string, std::uint64_t> lost_;
};

}  // namespace lb::agent
