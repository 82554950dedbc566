// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/proc.hpp"

#include <charconv>
#include <filesystem>
#include <system_error>

namespace lb::agent {

void for_each_number(const std::string& directory, const std::function<bool(int number)>& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const auto name = at->path().filename().native();
    int number = 0;
    const auto [stopped, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = failure == std::errc() && stopped == name.data() + name.size();
    if (is_number && !visit(number)) {
      return;
    }
  }
}

}  // namespace lb::agent
