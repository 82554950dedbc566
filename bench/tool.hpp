// SPDX-License-Identifier: Apache-2.0
// Shared by the measuring tools' command lines: selects a command by its name, and prints an error as one
// message. For bench/connect.cpp, bench/frames.cpp, bench/serve.cpp and bench/syscalls.cpp.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

namespace lb::bench {

struct Command {
  std::function<void(char**)> what;  ///< gets the words after the command
  int words;                         ///< how many words it takes
};

using Commands = std::map<std::string, Command>;

inline void run(const Commands& commands, const char* usage, int count, char** words) {
  const auto command = count > 1 ? commands.find(words[1]) : commands.end();
  if (command == commands.end() || count != command->second.words + 2) {
    throw std::runtime_error(usage);
  }
  command->second.what(words + 2);
}

/// The body of main() of the tool of that name; returns its exit code.
inline int run_tool(const char* name, const Commands& commands, const char* usage, int count, char** words) {
  try {
    run(commands, usage, count, words);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace lb::bench
