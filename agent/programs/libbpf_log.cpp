// SPDX-License-Identifier: Apache-2.0
// libbpf has one print function for the whole process.
#include "agent/programs/libbpf_log.hpp"

#include <bpf/libbpf.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "agent/programs/verifier_log.hpp"

namespace lb::agent {
namespace {

/// What libbpf reported since the last forget_libbpf_warnings().
struct LoadFailure {
  std::string first_warning;
  RefusedProgram refused;
};

LoadFailure& load_failure() {
  static LoadFailure failure;
  return failure;
}

/// Formats a message; a verifier's log has megabytes.
[[gnu::format(printf, 1, 0)]] std::string formatted(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(static_cast<std::size_t>(length > 0 ? length : 0) + 1, '\0');
  static_cast<void>(std::vsnprintf(text.data(), text.size(), format, arguments));
  text.pop_back();
  return text;
}

/// Parses "prog 'NAME': -- BEGIN PROG LOAD LOG --…" and "prog 'NAME': … load failed: …".
void take_refusal(std::string_view text) {
  constexpr std::string_view opening = "prog '";
  const auto end = text.find("': ", opening.size());
  if (!text.starts_with(opening) || end == std::string_view::npos) {
    return;
  }
  auto& refused = load_failure().refused;
  const auto words = text.substr(end + 3);
  if (words.starts_with("-- BEGIN PROG LOAD LOG")) {
    const auto body = words.substr(words.find('\n') + 1);
    refused.reason = verifier_reason(body.substr(0, body.rfind("-- END PROG LOAD LOG")));
  } else if (words.find("load failed") != std::string_view::npos) {
    refused = {std::string(text.substr(opening.size(), end - opening.size())), {}};
  }
}

void take_warning(std::string_view text) {
  if (load_failure().first_warning.empty()) {
    load_failure().first_warning = text;
  }
  take_refusal(text);
}

/// Logs each line of the verifier's log, which is one text, as a separate record.
void debug_lines(std::string_view text) {
  if (!spdlog::should_log(spdlog::level::debug)) {
    return;
  }
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find('\n'), text.size());
    spdlog::debug("{}", text.substr(0, end));
  }
}

[[gnu::format(printf, 2, 0)]] int print(libbpf_print_level level, const char* format, va_list arguments) {
  const auto whole = formatted(format, arguments);
  std::string_view text(whole);
  while (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  if (level == LIBBPF_WARN) {
    take_warning(text.starts_with("libbpf: ") ? text.substr(8) : text);
  }
  debug_lines(text);
  return static_cast<int>(whole.size());
}

}  // namespace

void log_libbpf() { libbpf_set_print(print); }

void forget_libbpf_warnings() { load_failure() = {}; }

const RefusedProgram& refused_program() { return load_failure().refused; }

std::string libbpf_reason(int error) {
  return load_failure().first_warning.empty() ? std::string(std::strerror(error))
                                              : load_failure().first_warning;
}

}  // namespace lb::agent
