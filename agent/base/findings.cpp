// SPDX-License-Identifier: Apache-2.0
// Records findings and names their severity.
#include "agent/base/findings.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::warning:
      return "warning";
    case Severity::missing:
      break;
  }
  return "missing";
}

bool would_start(const std::vector<Finding>& findings) {
  return std::ranges::find(findings, Severity::missing, &Finding::severity) == findings.end();
}

void Findings::ok(std::string subject, std::string found) {
  all_.push_back({std::move(subject), Severity::ok, std::move(found), {}});
}

void Findings::warning(std::string subject, std::string found, std::string advice) {
  all_.push_back({std::move(subject), Severity::warning, std::move(found), std::move(advice)});
}

void Findings::missing(std::string subject, const StartError& error) {
  if (missing_ == Missing::ends_start) {
    throw StartError(error);
  }
  all_.push_back({std::move(subject), Severity::missing, error.found(), error.advice()});
}

}  // namespace lb::agent
