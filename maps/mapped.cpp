// SPDX-License-Identifier: Apache-2.0
// Mapping and unmapping of the arrays' memory.
#include "maps/mapped.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <utility>

namespace lb::maps {

namespace {

/// A map is mapped in at most this many pieces, each of at least this many bytes: the kernel keeps a record
/// of each.
constexpr std::size_t pieces = 16;
constexpr std::size_t min_piece = std::size_t{256} << 10U;

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

void Mapping::Unmap::operator()(std::byte* memory) const noexcept { ::munmap(memory, bytes); }

result<Mapping::Memory> Mapping::reserve(std::size_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return error_code{errno, boost::system::generic_category()};
  }
  return Memory(static_cast<std::byte*>(memory), Unmap{bytes});
}

result<Mapping> Mapping::of_map(int fd, std::size_t bytes, Access access) {
  const auto whole = whole_pages(bytes);
  auto memory = reserve(whole, PROT_NONE);
  if (!memory) {
    return memory.error();
  }
  Mapping mapping;
  mapping.memory_ = std::move(*memory);
  mapping.fd_ = fd;
  mapping.protection_ = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  if (const auto failure = mapping.map_up_to(0)) {
    return failure;
  }
  return mapping;
}

Mapping Mapping::in_memory(std::size_t bytes) {
  auto memory = reserve(whole_pages(bytes), PROT_READ | PROT_WRITE);
  if (!memory) {
    throw std::bad_alloc();
  }
  Mapping mapping;
  mapping.memory_ = std::move(*memory);
  mapping.mapped_bytes_ = mapping.memory_.get_deleter().bytes;
  return mapping;
}

error_code Mapping::map_up_to(std::size_t offset) const noexcept {
  const std::size_t whole = memory_.get_deleter().bytes;
  const std::size_t piece = whole_pages(std::max(whole / pieces, min_piece));
  const std::size_t end = std::min(whole, (offset / piece + 1) * piece);
  const void* there = ::mmap(memory_.get() + mapped_bytes_, end - mapped_bytes_, protection_,
                             MAP_SHARED | MAP_FIXED, fd_, static_cast<off_t>(mapped_bytes_));
  if (there == MAP_FAILED) {
    return {errno, boost::system::generic_category()};
  }
  mapped_bytes_ = end;
  return {};
}

/// Terminates, because readers would otherwise have to handle a failure at every word. An agent that ended is
/// restarted, and finds everything that it wrote.
void Mapping::extend(std::size_t offset) const noexcept {
  if (map_up_to(offset)) {
    std::terminate();
  }
}

void Mapping::unmap() noexcept {
  if (fd_ < 0) {
    return;
  }
  const void* there = ::mmap(memory_.get(), memory_.get_deleter().bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (there != MAP_FAILED) {
    mapped_bytes_ = 0;
  }
}

}  // namespace lb::maps
