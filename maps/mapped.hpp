// SPDX-License-Identifier: Apache-2.0
// A typed view of an ARRAY map through memory. Readers load aligned 64-bit words at any time, so everything
// is written here in such words; one release store publishes earlier writes. On arm64 that needs ordering on
// both sides: here the release, and in the programs an address that depends on the published word (an index,
// or lb_after of bpf/select/service.h). Retired elements are free only after a grace period (maps/grace.hpp),
// whose wait orders everything.
#pragma once

#include <linux/bpf.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "maps/map.hpp"

namespace lb::maps {

enum class Access : std::uint8_t { read, write };

/// Memory of a map, or anonymous memory of a test; unmapped at the end. A map is mapped piece by piece, up to
/// the furthest byte requested: the kernel counts all mapped memory as resident, and most maps are much
/// larger than their contents.
class Mapping {
 public:
  Mapping() = default;
  /// EINVAL if the map is not a mappable array. `fd` must stay open.
  [[nodiscard]] static result<Mapping> of_map(int fd, std::size_t bytes, Access access);
  [[nodiscard]] static Mapping in_memory(std::size_t bytes);

  /// The byte at `offset`, which must be below the size. Terminates the process if the kernel has no memory
  /// left to map it.
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept {
    if (offset >= mapped_bytes_) [[unlikely]] {
      extend(offset);
    }
    return memory_.get() + offset;
  }
  /// Unmaps the map; bytes that are requested later are mapped again.
  void unmap() noexcept;
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return mapped_bytes_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const noexcept;
  };
  using Memory = std::unique_ptr<std::byte, Unmap>;
  static result<Memory> reserve(std::size_t bytes, int protection);
  [[nodiscard]] error_code map_up_to(std::size_t offset) const noexcept;
  void extend(std::size_t offset) const noexcept;

  Memory memory_;
  int fd_ = -1;
  int protection_ = 0;
  mutable std::size_t mapped_bytes_ = 0;
};

template <class T>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// The kernel aligns elements to eight bytes; smaller values share an element with their neighbours.
  static constexpr std::size_t per_element = sizeof(T) < 8 ? 8 / sizeof(T) : 1;
  static constexpr std::size_t element_bytes = per_element > 1 ? 8 : sizeof(T);
  static constexpr std::size_t stride = per_element > 1 ? sizeof(T) : (sizeof(T) + 7) / 8 * 8;

  MappedArray() = default;
  /// EMSGSIZE if the map's sizes differ from those of the type.
  [[nodiscard]] static result<MappedArray> open(Fd fd, Access access) {
    auto info = map_info(fd.get());
    if (!info) {
      return info.error();
    }
    if (info->type != BPF_MAP_TYPE_ARRAY || info->key_size != sizeof(std::uint32_t) ||
        info->value_size != element_bytes) {
      return make_error_code(boost::system::errc::message_size);
    }
    const auto count = static_cast<std::uint32_t>(info->max_entries * per_element);
    auto mapping = Mapping::of_map(fd.get(), count * stride, access);
    if (!mapping) {
      return mapping.error();
    }
    return MappedArray(std::move(fd), std::move(*mapping), count);
  }
  /// Zeroed memory unknown to the kernel, for tests and dry runs.
  [[nodiscard]] static MappedArray in_memory(std::uint32_t count) {
    return MappedArray(Fd(), Mapping::in_memory((count * stride + 7) / 8 * 8), count);
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Unmaps all elements; those requested later are mapped again.
  void unmap() noexcept { mapping_.unmap(); }
  /// Number of mapped bytes.
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return mapping_.mapped_bytes(); }

  /// Loads word by word, in no order: consistent if no other thread or program writes more than one word of
  /// that element meanwhile. Another process that only displays values may see a partial change.
  [[nodiscard]] T load(std::uint32_t index) const noexcept {
    if constexpr (per_element > 1) {
      return part(index).load(std::memory_order_relaxed);
    } else {
      const auto words = words_at(index, std::make_index_sequence<stride / 8>());
      T element;
      std::memcpy(&element, words.data(), sizeof(element));
      return element;
    }
  }

  /// Stores an element that no reader can reach yet; the later publish() that makes it reachable orders these
  /// words before itself.
  void store(std::uint32_t index, const T& element) noexcept {
    if constexpr (per_element > 1) {
      return part(index).store(element, std::memory_order_relaxed);
    }
    std::array<std::uint64_t, stride / 8> words{};
    std::memcpy(words.data(), &element, sizeof(element));
    for (std::size_t at = 0; at < words.size(); ++at) {
      word(index, at).store(words[at], std::memory_order_relaxed);
    }
  }

  /// Stores the 64-bit word at byte `Offset` of `element`, by one release store.
  template <std::size_t Offset>
  void publish(std::uint32_t index, const T& element) noexcept {
    static_assert(Offset % 8 == 0 && Offset < stride);
    word(index, Offset / 8).store(word_of<Offset>(element), std::memory_order_release);
  }

  /// Likewise, but only if it differs. Returns whether it was written.
  template <std::size_t Offset>
  bool publish_change(std::uint32_t index, const T& element) noexcept {
    if (word(index, Offset / 8).load(std::memory_order_relaxed) == word_of<Offset>(element)) {
      return false;
    }
    publish<Offset>(index, element);
    return true;
  }

 private:
  MappedArray(Fd fd, Mapping mapping, std::uint32_t size)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), size_(size) {}

  template <std::size_t Offset>
  static std::uint64_t word_of(const T& element) noexcept {
    std::array<std::uint64_t, stride / 8> words{};
    std::memcpy(words.data(), &element, sizeof(element));
    return words[Offset / 8];
  }

  /// Without a loop, because 100,000 elements are read for one change.
  template <std::size_t... At>
  [[nodiscard]] std::array<std::uint64_t, sizeof...(At)> words_at(std::uint32_t index,
                                                                  std::index_sequence<At...>) const noexcept {
    return {word(index, At).load(std::memory_order_relaxed)...};
  }

  /// `index` must be below size().
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::uint32_t index, std::size_t at) const noexcept {
    auto* bytes = std::assume_aligned<8>(mapping_.at((index * stride) + (at * 8)));
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(bytes));
  }

  [[nodiscard]] std::atomic_ref<T> part(std::uint32_t index) const noexcept {
    auto* bytes = std::assume_aligned<alignof(T)>(mapping_.at(index * stride));
    return std::atomic_ref<T>(*reinterpret_cast<T*>(bytes));
  }

  Fd fd_;
  Mapping mapping_;
  std::uint32_t size_ = 0;
};

}  // namespace lb::maps
