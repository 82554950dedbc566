// Counters in the program's own memory, compared with what they were.
#include "agent/xdp_watch.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <atomic>

namespace lb::agent {
namespace {

std::uint64_t read(__u64& counter) { return std::atomic_ref(counter).load(std::memory_order_relaxed); }

}  // namespace

XdpWatch::XdpWatch(const std::vector<int>& programs, std::span<lb_sending> counts) : counts_(counts) {
  for (const int program : programs) {
    if (program >= 0) {
      links_.emplace_back(bpf_raw_tracepoint_open(nullptr, program));
    }
  }
}

// A device that stays keeps its place and its counts.
void XdpWatch::follow(const std::vector<std::uint32_t>& devices) {
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
    const auto place = std::ranges::find(counts_, device, &lb_sending::device);
    const auto free = std::ranges::find(counts_, 0U, &lb_sending::device);
    if (place == counts_.end() && free != counts_.end()) {
      seen_[device] = {read(free->sent), read(free->lost)};
      std::atomic_ref(free->device).store(device, std::memory_order_relaxed);
    }
  }
}

std::vector<std::uint32_t> XdpWatch::losing() {
  std::vector<std::uint32_t> devices;
  for (auto& count : counts_) {
    const auto seen = seen_.find(count.device);
    if (seen == seen_.end()) {
      continue;
    }
    const Seen now{read(count.sent), read(count.lost)};
    if (now.lost != seen->second.lost && now.sent == seen->second.sent) {
      devices.push_back(count.device);
    }
    seen->second = now;
  }
  return devices;
}

}  // namespace lb::agent
