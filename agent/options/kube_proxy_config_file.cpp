// SPDX-License-Identifier: Apache-2.0
#include "agent/options/kube_proxy_config_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "k8s/client/bounded_file.hpp"

namespace lb::agent {
namespace {

ConfigRefusal refusal_of(std::string_view path, const std::vector<ConfigProblem>& problems) {
  ConfigRefusal refusal;
  for (const auto& problem : problems) {
    refusal.push_back(problem_text(path, problem));
  }
  return refusal;
}

ConfigRemark remark_of(std::string_view path, const FieldRemark& remark) {
  const bool warning = remark.level == FieldRemark::Level::warning;
  return {warning ? LogLevel::warning : LogLevel::info, problem_text(path, remark.about)};
}

}  // namespace

std::variant<std::string, ConfigRefusal> read_config_file(const std::string& path) {
  std::string text;
  const int error = k8s::read_bounded(path, max_config_bytes, text);
  if (error == EFBIG) {
    return ConfigRefusal{fmt::format("{} is larger than 1 MiB: that is another file", path)};
  }
  if (error != 0) {
    const auto why = std::generic_category().message(error);
    return ConfigRefusal{
        fmt::format("{} cannot be read ({}): name a KubeProxyConfiguration with --config", path, why)};
  }
  return text;
}

std::variant<LoadedConfig, ConfigRefusal> load_config_text(std::string_view path, std::string text) {
  auto read = read_kube_proxy_config(text);
  if (const auto* problems = std::get_if<std::vector<ConfigProblem>>(&read)) {
    return refusal_of(path, *problems);
  }
  const auto& config = std::get<KubeProxyConfig>(read);
  auto mapped = map_kube_proxy_config(config);
  if (const auto* problems = std::get_if<std::vector<ConfigProblem>>(&mapped)) {
    return refusal_of(path, *problems);
  }
  LoadedConfig loaded;
  loaded.text = std::move(text);
  loaded.settings = std::move(std::get<MappedConfig>(mapped).settings);
  for (const auto& warning : config.warnings) {
    loaded.remarks.push_back({LogLevel::warning, problem_text(path, warning)});
  }
  for (const auto& remark : std::get<MappedConfig>(mapped).remarks) {
    loaded.remarks.push_back(remark_of(path, remark));
  }
  return loaded;
}

std::variant<LoadedConfig, ConfigRefusal> load_config_file(const std::string& path) {
  auto text = read_config_file(path);
  if (auto* refusal = std::get_if<ConfigRefusal>(&text)) {
    return std::move(*refusal);
  }
  return load_config_text(path, std::move(std::get<std::string>(text)));
}

std::string refusal_text(const ConfigRefusal& refusal, std::string_view between) {
  return fmt::format("{}", fmt::join(refusal, between));
}

}  // namespace lb::agent
