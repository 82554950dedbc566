// SPDX-License-Identifier: Apache-2.0
// The limit of the memory for sockets' storage (REL-140). The kernel keeps no sum of it, and charges it to
// the agent.
#pragma once

#include <vector>

#include "agent/programs/bpf_programs.hpp"
#include "maps/map.hpp"
#include "maps/mapped.hpp"

namespace lb::agent {

class SocketStorage {
 public:
  /// Without the program that counts sockets there is no limit.
  explicit SocketStorage(const BpfPrograms& programs);

  /// Lets the programs make as much storage as is left. Reads two words, unless half of the limit is used:
  /// then it counts all sockets that have storage, some 50 ns each.
  void look();

 private:
  struct Map {
    maps::Fd iterator;  ///< link of lb_count_sockets to the map
    lb_socket_units units;
  };
  [[nodiscard]] std::uint64_t units_in_use();
  void report(bool full);

  maps::MappedArray<lb_socket_use> use_;
  std::vector<Map> maps_;
  bool full_ = false;
};

}  // namespace lb::agent
