// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/config_reconciler.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/algorithm/string/trim.hpp>
#include <utility>

namespace lb::agent {
namespace {

/// The options without their source, and without the sizes that the running agent has chosen.
AgentOptions comparable(AgentOptions options, const AgentOptions& now) {
  options.config_file = {};
  options.remarks = {};
  options.flags = {};
  options.sizes = now.sizes;
  options.growth = now.growth;
  return options;
}

}  // namespace

ChangeKind change_between(const AgentOptions& now, const AgentOptions& next) {
  auto before = comparable(now, now);
  const auto after = comparable(next, now);
  if (before == after) {
    return ChangeKind::none;
  }
  take_live(before, after);
  return before == after ? ChangeKind::live : ChangeKind::begin_again;
}

void take_live(AgentOptions& options, AgentOptions next) {
  options.log_level = next.log_level;
  options.log_format = next.log_format;
  options.conntrack = std::move(next.conntrack);
  options.oom_score_adj = next.oom_score_adj;
  options.flags = std::move(next.flags);
  options.remarks = std::move(next.remarks);
  options.config_file = std::move(next.config_file);
}

std::variant<AgentOptions, std::string> options_with(const AgentOptions& now, const std::string& text) {
  auto parsed = parse_with_config(now.config_file, text);
  if (const auto* finished = std::get_if<Finished>(&parsed)) {
    return boost::algorithm::trim_copy(finished->text);
  }
  auto next = std::move(std::get<Options>(parsed).agent);
  next.sizes = now.sizes;
  next.growth = now.growth;
  return next;
}

ConfigReconciler::ConfigReconciler(boost::asio::io_context& context, const AgentOptions& options,
                                   Metrics& metrics, Actions actions)
    : options_(options), metrics_(metrics), actions_(std::move(actions)) {
  const auto& file = options.config_file;
  if (file.path.empty()) {
    return;
  }
  if (file.refusal.empty()) {
    metrics_.config_loaded(ConfigState::good, std::chrono::system_clock::now());
  } else {
    refuse(file.refusal);
  }
  watch_.emplace(context, file.path, file.refusal.empty() ? file.text : file.refused,
                 [this](const auto& found) { take(found); });
}

void ConfigReconciler::take(const std::variant<std::string, ConfigRefusal>& found) {
  if (const auto* refusal = std::get_if<ConfigRefusal>(&found)) {
    refuse(refusal_text(*refusal, "; "));
    return;
  }
  auto next = options_with(options_, std::get<std::string>(found));
  if (const auto* why = std::get_if<std::string>(&next)) {
    refuse(*why);
    return;
  }
  accept();
  follow(std::move(std::get<AgentOptions>(next)));
}

void ConfigReconciler::follow(AgentOptions next) {
  const auto& path = options_.config_file.path;
  switch (change_between(options_, next)) {
    case ChangeKind::none:
      spdlog::info("{} has changed, but nothing in it that the agent does otherwise", path);
      return;
    case ChangeKind::live:
      spdlog::info("{} has changed: the log, conntrack and the OOM score follow", path);
      actions_.apply_live(std::move(next));
      return;
    case ChangeKind::begin_again:
      spdlog::info("{} has changed: restarting in place with what is pinned; no flow ends", path);
      actions_.begin_again(std::move(next));
  }
}

void ConfigReconciler::refuse(const std::string& why) {
  if (why == problem_) {
    return;
  }
  problem_ = why;
  spdlog::error("the configuration file cannot be used, the last good one stays in force: {}", why);
  metrics_.config_loaded(ConfigState::bad, std::chrono::system_clock::now());
  actions_.report("the last good configuration is in force: " + why);
}

void ConfigReconciler::accept() {
  if (!problem_.empty()) {
    spdlog::info("{} can be used again", options_.config_file.path);
  }
  problem_.clear();
  metrics_.config_loaded(ConfigState::good, std::chrono::system_clock::now());
  actions_.report("");
}

}  // namespace lb::agent
