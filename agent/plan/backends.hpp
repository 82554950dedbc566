// SPDX-License-Identifier: Apache-2.0
// The backends of one service port, sorted, and in chunks that plans share where nothing changed. Pure.
#pragma once

#include <bitset>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

struct BackendPlan {
  k8s::Address address;
  std::uint16_t port = 0;
  lb_locality locality : 8 = LB_ELSEWHERE;  ///< 24 bytes in all: there may be 100,000
  bool in_cluster = false;
  bool in_local = false;
  bool serving = false;
  std::uint8_t weight = 1;  ///< 0: draining, and in no set
  auto operator<=>(const BackendPlan&) const = default;
};

/// Counts of the backends in one set, before slots are made.
struct Members {
  std::uint32_t count = 0;
  std::uint32_t weights = 0;  ///< their sum
  unsigned divisor = 0;       ///< greatest common divisor of the weights; 0: no members

  void add(unsigned weight) noexcept;
  void add(const Members& others) noexcept;
  /// The number of slots: the weights without their common divisor (choice I).
  [[nodiscard]] std::uint32_t slots() const noexcept { return divisor == 0 ? 0 : weights / divisor; }
  /// All weights are the same, so each backend is one slot.
  [[nodiscard]] bool are_equal() const noexcept { return weights == count * divisor; }
  bool operator==(const Members&) const = default;
};

/// Consecutive backends and their sets. If a chunk is unchanged, its published state is known without reading
/// its backends.
class BackendChunk {
 public:
  static constexpr std::size_t max_size = 256;  ///< cost of a changed endpoint; an equal chunk costs one step

  /// Throws std::length_error if there are more than `max_size`.
  explicit BackendChunk(std::vector<BackendPlan> backends);

  [[nodiscard]] std::span<const BackendPlan> backends() const noexcept { return backends_; }
  [[nodiscard]] std::size_t size() const noexcept { return backends_.size(); }
  [[nodiscard]] const Members& members(lb_scope scope) const noexcept { return set(scope).members; }
  /// Whether the backend at this index is in the set, with a weight above 0.
  [[nodiscard]] bool has(lb_scope scope, std::size_t at) const noexcept { return set(scope).who[at]; }

 private:
  struct Set {
    Members members;
    std::bitset<max_size> who;
    void add(std::size_t at, unsigned weight);
  };
  [[nodiscard]] const Set& set(lb_scope scope) const noexcept {
    return scope == LB_LOCAL ? local_ : cluster_;
  }

  std::vector<BackendPlan> backends_;
  Set cluster_;
  Set local_;
};

class BackendList {
 public:
  using Chunks = std::vector<std::shared_ptr<const BackendChunk>>;
  class Iterator;

  BackendList() = default;
  /// Keeps the given order.
  BackendList(std::span<const BackendPlan> backends);    // NOLINT(google-explicit-constructor)
  BackendList(const std::vector<BackendPlan>& backends)  // NOLINT(google-explicit-constructor)
      : BackendList(std::span(backends)) {}
  /// Drops chunks without backends.
  explicit BackendList(Chunks chunks);

  [[nodiscard]] const Chunks& chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Members members(lb_scope scope) const noexcept;
  [[nodiscard]] Iterator begin() const noexcept;
  [[nodiscard]] Iterator end() const noexcept;
  /// The backends of `front` before `front_end`, followed by those of `back` from `back_begin` on.
  [[nodiscard]] static BackendList joined(const BackendList& front, const Iterator& front_end,
                                          const BackendList& back, const Iterator& back_begin);
  /// Whether both have the same backends, however they are divided into chunks.
  bool operator==(const BackendList& other) const;

 private:
  Chunks chunks_;
  std::size_t size_ = 0;
};

/// Iterates over the backends; at the beginning of a chunk, it can skip the whole chunk in one step.
class BackendList::Iterator {
 public:
  using value_type = BackendPlan;
  using difference_type = std::ptrdiff_t;
  using reference = const BackendPlan&;
  using pointer = const BackendPlan*;
  using iterator_category = std::forward_iterator_tag;

  Iterator() = default;
  explicit Iterator(Chunks::const_iterator chunk) noexcept : chunk_(chunk) {}

  reference operator*() const noexcept { return (*chunk_)->backends()[at_]; }
  pointer operator->() const noexcept { return &**this; }
  Iterator& operator++() noexcept {
    if (++at_ == (*chunk_)->size()) {
      skip_chunk();
    }
    return *this;
  }
  Iterator operator++(int) noexcept {
    const auto before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Iterator&) const noexcept = default;

  /// Position in the list's chunks, and in that chunk.
  [[nodiscard]] Chunks::const_iterator chunk() const noexcept { return chunk_; }
  [[nodiscard]] std::size_t index() const noexcept { return at_; }

  /// The chunk that begins here; nullptr within a chunk. Not to be called at the end.
  [[nodiscard]] const BackendChunk* begun() const noexcept { return at_ == 0 ? chunk_->get() : nullptr; }
  void skip_chunk() noexcept {
    ++chunk_;
    at_ = 0;
  }

 private:
  Chunks::const_iterator chunk_;
  std::size_t at_ = 0;
};

/// Whether the same chunk begins at both: its backends are equal and need no comparison.
[[nodiscard]] inline bool share_chunk(const BackendList::Iterator& left, const BackendList::Iterator& right) {
  return left.begun() != nullptr && left.begun() == right.begun();
}

}  // namespace lb::agent
