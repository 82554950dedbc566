// SPDX-License-Identifier: Apache-2.0
// `sluice check`: whether an agent would start here.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "agent/base/log.hpp"
#include "agent/commands/check_against.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/grid.hpp"
#include "agent/commands/show.hpp"
#include "agent/run/check_machine.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;

std::ptrdiff_t count(const std::vector<Finding>& findings, Severity severity) {
  return std::ranges::count(findings, severity, &Finding::severity);
}

std::string conclusion(const std::vector<Finding>& findings) {
  const auto missing = count(findings, Severity::missing);
  const auto warnings = count(findings, Severity::warning);
  return missing == 0
             ? fmt::format("An agent with these options would start; warnings: {}.\n", warnings)
             : fmt::format("An agent with these options would not start; missing: {}, warnings: {}.\n",
                           missing, warnings);
}

/// Advice is below the finding: a separate column would make lines too long.
std::string findings_table(const std::vector<Finding>& findings) {
  Grid grid({{"VERDICT"}, {"WHAT"}, {"FOUND"}});
  for (const auto& each : findings) {
    grid.add({severity_name(each.severity), each.subject, each.found});
    if (!each.advice.empty()) {
      grid.add({"", "", "-> " + each.advice});
    }
  }
  return grid.text() + "\n" + conclusion(findings);
}

std::string findings_json(const std::vector<Finding>& findings) {
  json::array all;
  for (const auto& each : findings) {
    json::object object = {
        {"what", each.subject}, {"verdict", severity_name(each.severity)}, {"found", each.found}};
    if (!each.advice.empty()) {
      object["advice"] = each.advice;
    }
    all.push_back(std::move(object));
  }
  return json::serialize(json::object{{"starts", would_start(findings)}, {"findings", std::move(all)}}) +
         "\n";
}

}  // namespace

std::string show_findings(const std::vector<Finding>& findings, Output output) {
  return output == Output::json ? findings_json(findings) : findings_table(findings);
}

int run_check(const Options& options) {
  if (options.check.against == CheckAgainst::kube_proxy) {
    return run_check_against(options);
  }
  start_log(options.agent.log_level, options.agent.log_format);
  const auto findings = check_machine(options.agent);
  fmt::print("{}", show_findings(findings, options.show.output));
  return would_start(findings) ? 0 : 1;
}

}  // namespace lb::agent
