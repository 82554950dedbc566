#include "agent/options/kube_proxy_config_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <ios>
#include <system_error>
#include <utility>

namespace lb::agent {
namespace {

ConfigRefusal sentences(std::string_view path, const std::vector<ConfigProblem>& problems) {
  ConfigRefusal refusal;
  for (const auto& problem : problems) refusal.push_back(problem_text(path, problem));
  return refusal;
}

ConfigRemark remark_of(std::string_view path, const FieldRemark& remark) {
  const bool warning = remark.level == FieldRemark::Level::warning;
  return {warning ? LogLevel::warning : LogLevel::info, problem_text(path, remark.about)};
}

}  // namespace

std::variant<std::string, ConfigRefusal> read_config_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(most_config_bytes + 1, '\0');
  file.read(text.data(),
            static_cast<std::streamsize>(text.size()));  // bad: a directory, or a device that fails
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) {
    const auto why = std::generic_category().message(errno == 0 ? EIO : errno);
    return ConfigRefusal{
        fmt::format("{} cannot be read ({}): name a KubeProxyConfiguration with --config", path, why)};
  }
  if (text.size() > most_config_bytes) {
    return ConfigRefusal{fmt::format("{} is larger than 1 MiB: that is another file", path)};
  }
  return text;
}

std::variant<LoadedConfig, ConfigRefusal> load_config_text(std::string_view path, std::string text) {
  auto read = read_kube_proxy_config(text);
  if (const auto* problems = std::get_if<std::vector<ConfigProblem>>(&read)) {
    return sentences(path, *problems);
  }
  const auto& config = std::get<KubeProxyConfig>(read);
  auto mapped = map_kube_proxy_config(config);
  if (const auto* problems = std::get_if<std::vector<ConfigProblem>>(&mapped)) {
    return sentences(path, *problems);
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
  if (auto* refusal = std::get_if<ConfigRefusal>(&text)) return std::move(*refusal);
  return load_config_text(path, std::move(std::get<std::string>(text)));
}

std::string refusal_text(const ConfigRefusal& refusal, std::string_view between) {
  return fmt::format("{}", fmt::join(refusal, between));
}

}  // namespace lb::agent
