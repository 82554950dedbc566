// Mapping and unmapping of the arrays' memory.
#include "maps/mapped.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace lb::maps {

namespace {

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

void Mapping::Unmap::operator()(std::byte* memory) const noexcept { ::munmap(memory, bytes); }

result<Mapping> Mapping::of_map(int fd, std::size_t bytes, Access access) {
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* memory = ::mmap(nullptr, whole_pages(bytes), protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return error_code{errno, boost::system::generic_category()};
  return Mapping(static_cast<std::byte*>(memory), whole_pages(bytes));
}

Mapping Mapping::in_memory(std::size_t bytes) {
  void* memory =
      ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return Mapping(static_cast<std::byte*>(memory), whole_pages(bytes));
}

}  // namespace lb::maps
