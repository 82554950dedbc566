// Loaded programs as the kernel knows them: which one is behind a link, and whether two are the same.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace lb::agent {

/// What the kernel says of a loaded program.
struct ProgramInfo {
  std::uint32_t id = 0;
  std::string name;
  std::string tag;  ///< eight bytes over its instructions
  std::vector<std::uint32_t> maps;
};

/// Of the program behind a file descriptor. Errors are errno values.
[[nodiscard]] boost::system::result<ProgramInfo> program_info(int fd);
/// Of a program by its id.
[[nodiscard]] boost::system::result<ProgramInfo> program_info_of(std::uint32_t id);

/// Do both run the same code on the same maps with the same configuration? Data sections are compared by
/// content where they are constant and left out where they are not. Unknown is no.
[[nodiscard]] bool same_program(std::uint32_t running, int loaded);

}  // namespace lb::agent
