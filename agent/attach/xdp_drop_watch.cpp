// SPDX-License-Identifier: Apache-2.0
// Compares the counters in the program's memory with their previous values.
#include "agent/attach/xdp_drop_watch.hpp"

#include <bpf/bpf.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace lb::agent {
namespace {

std::uint64_t read(__u64& counter) { return std::atomic_ref(counter).load(std::memory_order_relaxed); }

std::string name_of(std::uint32_t device) {
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(device, name.data()) != nullptr ? name.data() : std::to_string(device);
}

}  // namespace

XdpDropWatch::XdpDropWatch(const std::vector<int>& programs, std::span<lb_xdp_tx> counts) : counts_(counts) {
  for (const int program : programs) {
    if (program >= 0) {
      links_.emplace_back(bpf_raw_tracepoint_open(nullptr, program));
    }
  }
}

// A device that is still followed keeps its entry and its counts.
void XdpDropWatch::follow(const std::vector<std::uint32_t>& devices) {
  const auto is_wanted = [&](std::uint32_t device) {
    return std::ranges::find(devices, device) != devices.end();
  };
  for (auto& count : counts_) {
    if (count.device != 0 && !is_wanted(count.device)) {
      seen_.erase(count.device);
      std::atomic_ref(count.device).store(0, std::memory_order_relaxed);
    }
  }
  for (const auto device : devices) {
    const auto known = std::ranges::find(counts_, device, &lb_xdp_tx::device);
    const auto free = std::ranges::find(counts_, 0U, &lb_xdp_tx::device);
    if (known == counts_.end() && free != counts_.end()) {
      seen_[device] = {name_of(device), read(free->sent), read(free->lost)};
      lost_.try_emplace(seen_[device].name, 0);
      std::atomic_ref(free->device).store(device, std::memory_order_relaxed);
    }
  }
}

std::vector<std::uint32_t> XdpDropWatch::dropping() {
  std::vector<std::uint32_t> devices;
  for (auto& count : counts_) {
    const auto seen = seen_.find(count.device);
    if (seen == seen_.end()) {
      continue;
    }
    auto& [name, sent, lost] = seen->second;
    const auto sent_now = read(count.sent);
    const auto lost_now = read(count.lost);
    if (lost_now != lost && sent_now == sent) {
      devices.push_back(count.device);
    }
    lost_[name] += lost_now - lost;
    sent = sent_now;
    lost = lost_now;
  }
  return devices;
}

}  // namespace lb::agent
