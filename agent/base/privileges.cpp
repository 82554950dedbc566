// SPDX-License-Identifier: Apache-2.0
// Reads files of /proc and securityfs.
#include "agent/base/privileges.hpp"

#include <fmt/format.h>
#include <linux/capability.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "agent/base/read_file.hpp"

namespace lb::agent {
namespace {

constexpr const char* what_it_needs = "run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";
constexpr int seccomp_filter = 2;  // SECCOMP_MODE_FILTER

/// The first word after "NAME:" in /proc/self/status.
std::string status_word(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) {
      std::istringstream words(line.substr(name.size() + 1));
      std::string word;
      words >> word;
      return word;
    }
  }
  return {};
}

/// The initial user namespace maps every number to itself.
Namespace user_namespace(const std::string& root) {
  std::ifstream file(root + "/proc/self/uid_map");
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  constexpr std::uint64_t all = 0xffffffff;
  const bool known = static_cast<bool>(file >> inside >> outside >> count);
  return !known || (inside == 0 && outside == 0 && count == all) ? Namespace::initial : Namespace::other;
}

}  // namespace

Privileges own_privileges(const std::string& root) {
  Privileges own;
  own.capabilities = std::strtoull(status_word(root, "CapEff").c_str(), nullptr, 16);
  own.filtered = status_word(root, "Seccomp") == std::to_string(seccomp_filter);
  own.user = user_namespace(root);
  int value = 0;
  if (std::ifstream(root + "/proc/sys/kernel/unprivileged_bpf_disabled") >> value) {
    own.unprivileged_off = value;
  }
  own.modules = first_line(root + "/sys/kernel/security/lsm");
  return own;
}

bool has_capability(const Privileges& privileges, int capability) {
  const auto has = [&](int each) { return (privileges.capabilities >> each & 1) != 0; };
  const bool included = capability == CAP_BPF || capability == CAP_PERFMON;
  return has(capability) || (included && has(CAP_SYS_ADMIN));
}

std::string lacking_capabilities(const Privileges& privileges) {
  struct Named {
    int number;
    const char* name;
  };
  constexpr std::array needed = {Named{CAP_BPF, "CAP_BPF"}, Named{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
                                 Named{CAP_PERFMON, "CAP_PERFMON"}};
  std::string text;
  for (const auto& [number, name] : needed) {
    if (!has_capability(privileges, number)) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
    }
  }
  return text;
}

Refusal bpf_refusal(const Privileges& privileges, int error) {
  const auto filter = "let it call bpf(): for a pod, a seccompProfile that allows it, such as Unconfined";
  if (error == ENOSYS) {
    return {"the kernel has no bpf()", privileges.filtered
                                           ? fmt::format("a seccomp filter may hide it: {}", filter)
                                           : "use a kernel that is built with CONFIG_BPF_SYSCALL"};
  }
  if (error != EPERM && error != EACCES) {
    return {fmt::format("the kernel cannot load programs ({})", std::strerror(error)),
            "Linux 6.1 or later with BPF is needed"};
  }
  if (const auto lacking = lacking_capabilities(privileges); !lacking.empty()) {
    return {fmt::format("the kernel does not let this process load programs, because it lacks {}", lacking),
            what_it_needs};
  }
  if (privileges.user == Namespace::other) {
    return {
        "the kernel does not let this process load programs, because it is root of a user namespace alone",
        "run it in the host's user namespace (for a pod: hostUsers: true)"};
  }
  if (privileges.filtered) {
    return {"a seccomp filter refuses bpf() to this process", filter};
  }
  return {fmt::format("a security module refuses bpf() to this process (there are: {})",
                      privileges.modules.empty() ? "not known" : privileges.modules),
          "allow it there; the kernel's log or the audit log names the rule"};
}

}  // namespace lb::agent
