// libbpf prints by one function of the whole process.
#include "agent/libbpf_words.hpp"

#include <bpf/libbpf.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace lb::agent {
namespace {

std::string& first_warning() {
  static std::string text;
  return text;
}

[[gnu::format(printf, 2, 0)]] int print(libbpf_print_level level, const char* format, va_list arguments) {
  std::array<char, 2048> line{};
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  std::string_view text(line.data());
  while (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  if (level == LIBBPF_WARN && first_warning().empty()) {
    first_warning() = text.starts_with("libbpf: ") ? text.substr(8) : text;
  }
  spdlog::debug("{}", text);
  return length;
}

}  // namespace

void log_libbpf() { libbpf_set_print(print); }

void forget_libbpf_warnings() { first_warning().clear(); }

std::string libbpf_reason(int error) {
  return first_warning().empty() ? std::string(std::strerror(error)) : first_warning();
}

}  // namespace lb::agent
