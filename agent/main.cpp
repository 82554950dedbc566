// SPDX-License-Identifier: Apache-2.0
// sluice: parses the command line, runs the command, and prints an error message if it cannot start.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/log.hpp"
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

/// Whether errors of the command line itself are to be JSON too: the options are not known then.
bool asks_for_json(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 2> names = {"--log-format", "--logging-format"};  // kube-proxy's
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    for (const auto name : names) {
      if (arguments[at] == std::string(name) + "=json") {
        return true;
      }
      if (arguments[at] == name && at + 1 < arguments.size() && arguments[at + 1] == "json") {
        return true;
      }
    }
  }
  return false;
}

int finish(const lb::agent::Finished& finished, const std::vector<std::string>& arguments) {
  const bool failed = finished.exit_code != 0;
  auto text = finished.text;
  if (failed && asks_for_json(arguments)) {
    text.erase(text.find_last_not_of('\n') + 1);
    text = lb::agent::fatal_text(text, lb::agent::LogFormat::json);
  }
  fmt::print(failed ? stderr : stdout, "{}", text);
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
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto parsed = parse(argv[0], arguments);
    if (const auto* finished = std::get_if<lb::agent::Finished>(&parsed)) {
      return finish(*finished, arguments);
    }
    return run(std::get<lb::agent::Options>(parsed));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", lb::agent::fatal_text(error.what()));
    return 1;
  }
}
