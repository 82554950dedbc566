// SPDX-License-Identifier: Apache-2.0
// Copies entries from map to map without interpreting them.
#include "maps/copy.hpp"

#include <algorithm>
#include <cstring>

#include "maps/mapped.hpp"

namespace lb::maps {
namespace {

bool same_shape(const MapInfo& from, const MapInfo& to) {
  return from.type == to.type && from.key_size == to.key_size && from.value_size == to.value_size;
}

bool fits(const MapInfo& from, const MapInfo& to) {
  return same_shape(from, to) && from.max_entries <= to.max_entries;
}

/// Size of an array's memory in the kernel's layout.
std::size_t array_bytes(const MapInfo& info) {
  return std::size_t{info.max_entries} * ((std::size_t{info.value_size} + 7) / 8 * 8);
}

/// Copies as many elements as the smaller array has.
error_code copy_array(int from, const MapInfo& source, int to, const MapInfo& target) {
  const auto bytes = std::min(array_bytes(source), array_bytes(target));
  const auto old = Mapping::of_map(from, array_bytes(source), Access::read);
  if (!old) {
    return old.error();
  }
  const auto fresh = Mapping::of_map(to, array_bytes(target), Access::write);
  if (!fresh) {
    return fresh.error();
  }
  if (bytes == 0) {
    return {};
  }
  static_cast<void>(old->at(bytes - 1));  // maps all of it
  static_cast<void>(fresh->at(bytes - 1));
  std::memcpy(fresh->at(0), old->at(0), bytes);
  return {};
}

error_code copy_keys(int from, const MapInfo& source, int to) {
  error_code failure;
  const auto error = raw::walk(from, source, Walk::batch, [&](const void* key, const void* value) {
    if (!failure) {
      failure = raw::put(to, key, value, Put::any);
    }
  });
  return error ? error : failure;
}

}  // namespace

error_code copy_entries(int from, int to) {
  const auto source = map_info(from);
  if (!source) {
    return source.error();
  }
  const auto target = map_info(to);
  if (!target) {
    return target.error();
  }
  if (!fits(*source, *target)) {
    return make_error_code(boost::system::errc::invalid_argument);
  }
  return source->type == BPF_MAP_TYPE_ARRAY ? copy_array(from, *source, to, *target)
                                            : copy_keys(from, *source, to);
}

error_code copy_first_elements(int from, int to) {
  const auto source = map_info(from);
  if (!source) {
    return source.error();
  }
  const auto target = map_info(to);
  if (!target) {
    return target.error();
  }
  if (!same_shape(*source, *target) || source->type != BPF_MAP_TYPE_ARRAY) {
    return make_error_code(boost::system::errc::invalid_argument);
  }
  return copy_array(from, *source, to, *target);
}

}  // namespace lb::maps
