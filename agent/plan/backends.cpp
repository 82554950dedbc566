// SPDX-License-Identifier: Apache-2.0
// The backends of one service port, in chunks.
#include "agent/plan/backends.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace lb::agent {

/// `weight` 0 means not a member. Branches only where weights differ: branching on membership would be
/// unpredictable.
void Members::add(unsigned weight) noexcept {
  count += weight > 0 ? 1 : 0;
  weights += weight;
  const unsigned other = weight > 0 ? weight : divisor;
  if (other != divisor) {
    divisor = std::gcd(divisor, other);
  }
}

void Members::add(const Members& others) noexcept {
  count += others.count;
  weights += others.weights;
  divisor = std::gcd(divisor, others.divisor);
}

void BackendChunk::Set::add(std::size_t at, unsigned weight) {
  members.add(weight);
  who[at] = weight > 0;
}

BackendChunk::BackendChunk(std::vector<BackendPlan> backends) : backends_(std::move(backends)) {
  if (backends_.size() > max_size) {
    throw std::length_error("too many backends for a chunk");
  }
  for (std::size_t at = 0; at < backends_.size(); ++at) {
    const BackendPlan& backend = backends_[at];
    cluster_.add(at, backend.in_cluster ? backend.weight : 0);
    local_.add(at, backend.in_local ? backend.weight : 0);
  }
}

BackendList::BackendList(std::span<const BackendPlan> backends) : size_(backends.size()) {
  while (!backends.empty()) {
    const auto part = backends.first(std::min(backends.size(), BackendChunk::max_size));
    chunks_.push_back(std::make_shared<const BackendChunk>(std::vector(part.begin(), part.end())));
    backends = backends.subspan(part.size());
  }
}

BackendList::BackendList(Chunks chunks) : chunks_(std::move(chunks)) {
  std::erase_if(chunks_, [](const auto& chunk) { return chunk->size() == 0; });
  for (const auto& chunk : chunks_) {
    size_ += chunk->size();
  }
}

Members BackendList::members(lb_scope scope) const noexcept {
  Members members;
  for (const auto& chunk : chunks_) {
    members.add(chunk->members(scope));
  }
  return members;
}

BackendList::Iterator BackendList::begin() const noexcept { return Iterator(chunks_.begin()); }

BackendList::Iterator BackendList::end() const noexcept { return Iterator(chunks_.end()); }

BackendList BackendList::joined(const BackendList& front, const Iterator& front_end, const BackendList& back,
                                const Iterator& back_begin) {
  Chunks chunks(front.chunks_.begin(), front_end.chunk());
  if (const auto index = front_end.index(); index > 0) {
    const auto& cut = (*front_end.chunk())->backends();
    chunks.push_back(std::make_shared<const BackendChunk>(
        std::vector(cut.begin(), cut.begin() + static_cast<std::ptrdiff_t>(index))));
  }
  auto rest = back_begin.chunk();
  if (const auto index = back_begin.index(); index > 0) {
    const auto& cut = (*rest++)->backends();
    chunks.push_back(std::make_shared<const BackendChunk>(
        std::vector(cut.begin() + static_cast<std::ptrdiff_t>(index), cut.end())));
  }
  chunks.insert(chunks.end(), rest, back.chunks_.end());
  return BackendList(std::move(chunks));
}

bool BackendList::operator==(const BackendList& other) const {
  if (size_ != other.size_) {
    return false;
  }
  auto left = begin();
  auto right = other.begin();
  while (left != end()) {
    if (share_chunk(left, right)) {
      left.skip_chunk();
      right.skip_chunk();
    } else if (*left++ != *right++) {
      return false;
    }
  }
  return true;
}

}  // namespace lb::agent
