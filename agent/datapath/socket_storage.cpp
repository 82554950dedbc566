// SPDX-License-Identifier: Apache-2.0
// Programs add what they make; the agent counts what exists by an iterator, which spans network namespaces.
#include "agent/datapath/socket_storage.hpp"

#include <bpf/bpf.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "agent/programs/map_iterator.hpp"

namespace lb::agent {
namespace {

/// The iterator writes nothing; it runs while it is read, and asks for another read after a million elements.
void run(int link) {
  const maps::Fd iterator(bpf_iter_create(link));
  std::array<char, 64> nothing{};
  ssize_t size = 0;
  do {
    size = ::read(iterator.get(), nothing.data(), nothing.size());
  } while (size > 0 || (size < 0 && errno == EAGAIN));
}

}  // namespace

SocketStorage::SocketStorage(const BpfPrograms& programs) {
  const int program = programs.program("lb_count_sockets");
  auto use = maps::MappedArray<lb_socket_use>::open(maps::Fd(::dup(programs.map("lb_socket_use"))),
                                                    maps::Access::write);
  if (program < 0 || !use) {
    return;
  }
  use_ = std::move(*use);
  for (const auto& [name, units] :
       {std::pair{"lb_sockets", LB_UDP_SOCKET_UNITS}, std::pair{"lb_tcp_sockets", LB_TCP_SOCKET_UNITS}}) {
    maps_.push_back({link_iterator(program, programs.map(name)), units});
  }
}

// What is made while sockets are counted is subtracted, too, although it may have been counted.
void SocketStorage::look() {
  if (maps_.empty() ||
      !std::ranges::all_of(maps_, [](const Map& map) { return static_cast<bool>(map.iterator); })) {
    return;
  }
  auto use = use_.load(0);
  if (use.most != 0 && use.made + (LB_SOCKET_UNITS / 2) < use.most) {
    return;
  }
  const auto used = units_in_use();
  use.most = use.made + (used < LB_SOCKET_UNITS ? LB_SOCKET_UNITS - used : 1);
  use_.publish<offsetof(lb_socket_use, most)>(0, use);
  report(used + LB_SOCKET_RESERVE >= LB_SOCKET_UNITS);
}

std::uint64_t SocketStorage::units_in_use() {
  std::uint64_t units = 0;
  for (const auto& map : maps_) {
    use_.publish<offsetof(lb_socket_use, counted)>(0, {});
    run(map.iterator.get());
    units += use_.load(0).counted * map.units;
  }
  return units;
}

void SocketStorage::report(bool full) {
  if (std::exchange(full_, full) == full) {
    return;
  }
  if (full) {
    spdlog::warn(
        "the memory for sockets is used up: new TCP connections to services show their backend's address as "
        "peer (socket_forgotten)");
  } else {
    spdlog::info("there is memory for sockets again");
  }
}

}  // namespace lb::agent
