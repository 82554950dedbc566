// Records findings and names their verdicts.
#include "agent/base/findings.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warning";
    case Verdict::missing:
      break;
  }
  return "missing";
}

bool would_start(const std::vector<Finding>& findings) {
  return std::ranges::find(findings, Verdict::missing, &Finding::verdict) == findings.end();
}

void Findings::ok(std::string subject, std::string found) {
  all_.push_back({std::move(subject), Verdict::ok, std::move(found), {}});
}

void Findings::warning(std::string subject, std::string found, std::string advice) {
  all_.push_back({std::move(subject), Verdict::warning, std::move(found), std::move(advice)});
}

void Findings::missing(std::string subject, const StartError& error) {
  if (missing_ == Missing::ends_start) {
    throw StartError(error);
  }
  all_.push_back({std::move(subject), Verdict::missing, error.found(), error.advice()});
}

}  // namespace lb::agent
