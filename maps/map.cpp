// SPDX-License-Identifier: Apache-2.0
// The system calls behind map.hpp, without types.
#include "maps/map.hpp"

#include <bpf/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <unordered_set>
#include <vector>

namespace lb::maps {

namespace {

error_code from_errno() { return {errno, boost::system::generic_category()}; }

error_code from_result(int outcome) { return outcome == 0 ? error_code{} : from_errno(); }

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

result<MapInfo> map_info(int fd) {
  bpf_map_info info{};
  __u32 length = sizeof(info);
  if (bpf_map_get_info_by_fd(fd, &info, &length) != 0) {
    return from_errno();
  }
  return MapInfo{.id = info.id,
                 .type = static_cast<bpf_map_type>(info.type),
                 .key_size = info.key_size,
                 .value_size = info.value_size,
                 .max_entries = info.max_entries,
                 .flags = info.map_flags,
                 .name = static_cast<const char*>(info.name)};
}

namespace raw {

namespace {

constexpr std::uint32_t batch_entries = 4096;

/// Maximum buffer: a bucket larger than the buffer gives ENOSPC, and the buffer is enlarged.
constexpr std::uint32_t max_batch = 1U << 20U;

class Batch {
 public:
  Batch(const MapInfo& info, std::uint32_t count) : info_(info), count_(count) { resize(); }

  /// One batch lookup; visits its entries. ENOENT sets `finished`.
  error_code next(int fd, Cursor& cursor, const Visit& visit) {
    for (;;) {
      __u32 count = count_;
      std::uint64_t out = 0;
      const int outcome = bpf_map_lookup_batch(fd, cursor.started ? &cursor.bucket : nullptr, &out,
                                               keys_.data(), values_.data(), &count, nullptr);
      const error_code error = from_result(outcome);
      if (error == boost::system::errc::no_space_on_device && count_ < max_batch) {
        count_ *= 2;
        resize();
        continue;
      }
      cursor.finished = error == boost::system::errc::no_such_file_or_directory;
      if (error && !cursor.finished) {
        return error;
      }
      cursor.bucket = out;
      cursor.started = true;
      hand_out(count, visit);
      return {};
    }
  }

 private:
  void resize() {
    keys_.resize(std::size_t{count_} * info_.key_size);
    values_.resize(std::size_t{count_} * info_.value_size);
  }
  void hand_out(std::uint32_t count, const Visit& visit) const {
    for (std::size_t at = 0; at < count; ++at) {
      visit(&keys_[at * info_.key_size], &values_[at * info_.value_size]);
    }
  }

  const MapInfo& info_;
  std::uint32_t count_;
  std::vector<char> keys_;
  std::vector<char> values_;
};

/// Collects all keys first, because a visitor may erase. If the cursor's key is erased meanwhile, the walk
/// starts over from the first key; steps are bounded, because a map that changes all the time may never end.
result<std::unordered_set<std::string>> all_keys(int fd, const MapInfo& info) {
  std::unordered_set<std::string> keys;
  const std::string* cursor = nullptr;
  std::string next(info.key_size, '\0');
  for (std::uint64_t steps = 8ULL * info.max_entries + 1024; steps > 0; --steps) {
    if (bpf_map_get_next_key(fd, cursor != nullptr ? cursor->data() : nullptr, next.data()) != 0) {
      if (errno == ENOENT) {
        return keys;
      }
      return from_errno();
    }
    cursor = &*keys.insert(next).first;
  }
  return make_error_code(boost::system::errc::resource_unavailable_try_again);
}

error_code walk_keys(int fd, const MapInfo& info, const Visit& visit) {
  const auto keys = all_keys(fd, info);
  if (!keys) {
    return keys.error();
  }
  std::vector<char> value(info.value_size);
  for (const std::string& key : *keys) {
    if (bpf_map_lookup_elem(fd, key.data(), value.data()) == 0) {
      visit(key.data(), value.data());
    } else if (errno != ENOENT) {  // it was erased meanwhile
      return from_errno();
    }
  }
  return {};
}

error_code walk_batches(int fd, const MapInfo& info, const Visit& visit) {
  Batch batch(info, std::min(batch_entries, std::max(info.max_entries, 1U)));
  for (Cursor cursor; !cursor.finished;) {
    if (auto error = batch.next(fd, cursor, visit)) {
      return error;
    }
  }
  return {};
}

}  // namespace

error_code get(int fd, const void* key, void* value) {
  return from_result(bpf_map_lookup_elem(fd, key, value));
}

error_code put(int fd, const void* key, const void* value, Put mode) {
  return from_result(bpf_map_update_elem(fd, key, value, static_cast<__u64>(mode)));
}

error_code erase(int fd, const void* key) {
  const error_code error = from_result(bpf_map_delete_elem(fd, key));
  return error == boost::system::errc::no_such_file_or_directory ? error_code{} : error;
}

error_code walk(int fd, const MapInfo& info, Walk how, const Visit& visit) {
  // Only these types number their buckets; the cursors of other types are keys.
  const bool buckets = info.type == BPF_MAP_TYPE_HASH || info.type == BPF_MAP_TYPE_LRU_HASH;
  if (how == Walk::batch && buckets) {
    const error_code error = walk_batches(fd, info, visit);
    // EINVAL and ENOTSUPP (524, which has no name) occur at the first call, before any visit.
    if (error.value() != EINVAL && error.value() != 524) {
      return error;
    }
  }
  return walk_keys(fd, info, visit);
}

error_code step(int fd, const MapInfo& info, Cursor& cursor, std::uint32_t count, const Visit& visit) {
  if (info.type != BPF_MAP_TYPE_HASH && info.type != BPF_MAP_TYPE_LRU_HASH) {
    return make_error_code(boost::system::errc::invalid_argument);
  }
  Batch batch(info, count);
  return batch.next(fd, cursor, visit);
}

}  // namespace raw

}  // namespace lb::maps
