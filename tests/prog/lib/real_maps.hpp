// SPDX-License-Identifier: Apache-2.0
// The maps that Tables writes, created in the kernel for one test or bench and not pinned.
#pragma once

#include <bpf/bpf.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "maps/grace.hpp"
#include "maps/mapset.hpp"
#include "maps/sweep.hpp"

namespace lb::tables_test {

/// The number of entries of each map.
struct RealLimits {
  std::uint32_t frontends = 1024;
  std::uint32_t services = 1024;
  std::uint32_t backends = LB_MAX_BACKENDS;
  std::uint32_t slots = LB_MAX_SLOTS;
  std::uint32_t ranges = 64;
};

template <class Key, class Value>
maps::Fd make_map(bpf_map_type type, const char* name, std::uint32_t entries) {
  bpf_map_create_opts options{};
  options.sz = sizeof(options);
  options.map_flags = type == BPF_MAP_TYPE_ARRAY ? BPF_F_MMAPABLE : 0;
  if (type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LPM_TRIE) {
    options.map_flags = BPF_F_NO_PREALLOC;
  }
  const int fd = bpf_map_create(type, name, sizeof(Key), sizeof(Value), entries, &options);
  if (fd < 0) {
    throw std::runtime_error(std::string("cannot make the map ") + name + "; are you root?");
  }
  return maps::Fd(fd);
}

template <class Key, class Value>
maps::HashMap<Key, Value> make_hash(const char* name, std::uint32_t entries,
                                    bpf_map_type type = BPF_MAP_TYPE_HASH) {
  return maps::HashMap<Key, Value>::open(make_map<Key, Value>(type, name, entries)).value();
}

template <class T>
maps::MappedArray<T> make_array(const char* name, std::uint32_t entries) {
  constexpr auto shared = static_cast<std::uint32_t>(maps::MappedArray<T>::per_element);
  using Element = std::conditional_t<(shared > 1), std::uint64_t, T>;
  auto fd = make_map<std::uint32_t, Element>(BPF_MAP_TYPE_ARRAY, name, (entries + shared - 1) / shared);
  return maps::MappedArray<T>::open(std::move(fd), maps::Access::write).value();
}

struct RealMaps {
  explicit RealMaps(RealLimits limits = {})
      : frontends(make_hash<lb_frontend_key, lb_frontend>("lb_frontends", limits.frontends)),
        addresses(make_hash<lb_address_key, lb_address>("lb_addresses", limits.frontends)),
        ranges(make_hash<lb_range_key, lb_range>("lb_ranges", limits.ranges, BPF_MAP_TYPE_LPM_TRIE)),
        names(make_hash<std::uint32_t, lb_name>("lb_names", limits.services)),
        services(make_array<lb_service>("lb_services", limits.services)),
        slots(make_array<std::uint32_t>("lb_slots", limits.slots)),
        backends(make_array<lb_backend>("lb_backends", limits.backends)),
        reserved(make_array<std::uint64_t>("lb_reserved", LB_RESERVED_WORDS)) {}

  maps::Store store() {
    return {.frontends = frontends,
            .addresses = addresses,
            .ranges = ranges,
            .names = names,
            .services = services,
            .slots = slots,
            .backends = backends,
            .reserved = reserved};
  }

  maps::HashMap<lb_frontend_key, lb_frontend> frontends;
  maps::HashMap<lb_address_key, lb_address> addresses;
  maps::HashMap<lb_range_key, lb_range> ranges;
  maps::HashMap<std::uint32_t, lb_name> names;
  maps::MappedArray<lb_service> services;
  maps::MappedArray<std::uint32_t> slots;
  maps::MappedArray<lb_backend> backends;
  maps::MappedArray<std::uint64_t> reserved;
};

/// A substitute for the agent's io_context: any thread posts calls, this one runs them.
class Calls {
 public:
  maps::Post post() {
    return [this](std::function<void()> call) {
      {
        const std::scoped_lock lock(mutex_);
        calls_.push_back(std::move(call));
      }
      arrived_.notify_one();
    };
  }
  /// Runs the pending calls.
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (calls_.empty()) {
        return;
      }
      auto call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call();
    }
  }
  /// Waits for at least one call, and runs the pending calls.
  void wait() {
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return !calls_.empty(); });
    }
    run();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> calls_;
};

/// A sweeper that finds no references by flows; its result comes in a separate call.
class NothingNamed final : public maps::Sweeper {
 public:
  explicit NothingNamed(maps::Post post) : post_(std::move(post)) {}
  void sweep(std::function<void(maps::result<maps::Named>)> done) override {
    post_([done = std::move(done)] { done(maps::Named()); });
  }

 private:
  maps::Post post_;
};

}  // namespace lb::tables_test
