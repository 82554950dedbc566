// SPDX-License-Identifier: Apache-2.0
// Reads kube-proxy's configuration files and flags as the agent does, for tests.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/options/kube_proxy_flags.hpp"
#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"

namespace lb::config_test {

using namespace lb::agent;

inline const std::string corpus = lb::test::source_path("tests/corpus/kube_proxy/");
inline const std::string head =
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

inline std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(lb::test::content_of(path));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// A file that is removed with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / fmt::format("kube-proxy-config-{}.yaml", ::getpid())) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

using Result = std::variant<Options, Finished>;

inline AgentOptions good(const Result& result) {
  const auto* finished = std::get_if<Finished>(&result);
  INFO((finished != nullptr ? finished->text : ""));
  REQUIRE(finished == nullptr);
  return std::get<Options>(result).agent;
}

inline std::string refused(const Result& result) {
  REQUIRE(std::holds_alternative<Finished>(result));
  CHECK(std::get<Finished>(result).exit_code != 0);
  return std::get<Finished>(result).text;
}

inline Result with_file(const std::string& path, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"agent", "--devices", "eth0", "--config", path};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parse_command_line(arguments, "Host");
}

/// An agent's options from a file with these lines after the first two.
inline AgentOptions agent(const std::string& lines, const std::vector<std::string>& more = {}) {
  const TemporaryFile file(head + lines);
  return good(with_file(file.path(), more));
}

inline bool says(const AgentOptions& options, LogLevel level, const std::string& text) {
  return std::ranges::any_of(options.remarks, [&](const auto& remark) {
    return remark.level == level && remark.text.find(text) != std::string::npos;
  });
}

inline std::vector<std::string> prefixes(const std::vector<lb::k8s::Prefix>& list) {
  std::vector<std::string> texts;
  for (const auto& each : list) {
    texts.push_back(each.text());
  }
  return texts;
}

/// The message to a wrong call of kube-proxy, whose exit code is kube-proxy's.
inline std::string refused_call(const Result& result) {
  REQUIRE(std::holds_alternative<Finished>(result));
  CHECK(std::get<Finished>(result).exit_code == 1);
  return std::get<Finished>(result).text;
}

/// The result for an agent called kube-proxy with kube-proxy's arguments.
inline Result called(const std::vector<std::string>& arguments) {
  return parse_kube_proxy_command_line(arguments, "Host", "eth0,eth1");
}

}  // namespace lb::config_test
