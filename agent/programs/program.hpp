// SPDX-License-Identifier: Apache-2.0
// Loaded programs in the kernel: which one a link has, and whether two are the same.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace lb::agent {

/// The kernel's information about a loaded program.
struct ProgramInfo {
  std::uint32_t id = 0;
  std::string name;
  std::string tag;  ///< hash over its instructions, eight bytes
  std::vector<std::uint32_t> maps;
};

/// Information about a program by its file descriptor. Errors are errno values.
[[nodiscard]] boost::system::result<ProgramInfo> program_info(int fd);
/// Information about a program by its id.
[[nodiscard]] boost::system::result<ProgramInfo> program_info_of(std::uint32_t id);

/// Whether both run the same code on the same pinned maps with the same configuration. Constant data sections
/// are compared by content; others are ignored. False if unknown.
[[nodiscard]] bool same_program(std::uint32_t running, int loaded);

}  // namespace lb::agent
