// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, by CLI11. Included by config.cpp and agent_options.cpp alone.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "agent/options/raw_options.hpp"

namespace lb::agent {

/// A validator that accepts the keys of `names`, which must outlive it.
template <class Enum>
CLI::Validator one_of(const std::map<std::string, Enum>& names) {
  std::string wanted = "one of";
  for (const auto& [name, value] : names) {
    wanted += ' ' + name;
  }
  return CLI::Validator(
      [&names, wanted](std::string& text) {
        return names.contains(text) ? std::string() : fmt::format("'{}' is not {}", text, wanted);
      },
      "", "");
}

/// Adds --pins.
void add_pins(CLI::App& app, std::string& pins);

/// Adds all options of the agent; `sluice check` has the same. Returns `agent`.
CLI::App* add_agent_options(CLI::App* agent, RawOptions& raw);

}  // namespace lb::agent
