// sluice: parses the command line, runs the command, and prints an error message if it cannot start.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "agent/commands/alive.hpp"
#include "agent/commands/cleanup.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/drain.hpp"
#include "agent/options/config.hpp"
#include "agent/options/kube_proxy_flags.hpp"
#include "agent/options/raw_options.hpp"
#include "agent/run/run.hpp"

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

int finish(const lb::agent::Finished& finished) {
  fmt::print(finished.exit_code == 0 ? stdout : stderr, "{}", finished.text);
  return finished.exit_code;
}

std::variant<lb::agent::Options, lb::agent::Finished> parse(const std::string& called,
                                                            const std::vector<std::string>& arguments) {
  if (lb::agent::is_kube_proxy_name(called)) {
    return lb::agent::parse_kube_proxy_command_line(arguments, host_name(), lb::agent::found_devices);
  }
  return lb::agent::parse_command_line(arguments, host_name());
}

int run(const lb::agent::Options& options) {
  if (options.command == lb::agent::Command::agent) {
    return lb::agent::run_agent(options.agent);
  }
  if (options.command == lb::agent::Command::check) {
    return lb::agent::run_check(options);
  }
  if (options.command == lb::agent::Command::cleanup) {
    return lb::agent::run_cleanup(options.cleanup);
  }
  if (options.command == lb::agent::Command::drain) {
    return lb::agent::run_drain(options.drain);
  }
  if (options.command == lb::agent::Command::alive) {
    return lb::agent::run_alive(options.alive);
  }
  fmt::print("{}", lb::agent::run_command(options.command, options.show));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto parsed = parse(argv[0], {argv + 1, argv + argc});
    if (const auto* finished = std::get_if<lb::agent::Finished>(&parsed)) {
      return finish(*finished);
    }
    return run(std::get<lb::agent::Options>(parsed));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: %s\n", error.what());
    return 1;
  }
}
