// SPDX-License-Identifier: Apache-2.0
// The format of a log line, and the choice of complaints to log.
#include "agent/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "agent/base/escape.hpp"

namespace lb::agent {
namespace {

spdlog::level::level_enum level_of(k8s::ComplaintType type) {
  return type == k8s::ComplaintType::problem ? spdlog::level::warn : spdlog::level::info;
}

/// As start_log() was told.
LogFormat& format_in_use() {
  static auto format = LogFormat::text;
  return format;
}

std::string json_string(const std::string& words) {
  return boost::json::serialize(boost::json::string_view(words));
}

/// The flag "%*": the message in one line, as text or as a JSON string.
class Message : public spdlog::custom_flag_formatter {
 public:
  explicit Message(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    auto words = escaped({message.payload.data(), message.payload.size()});
    if (format_ == LogFormat::json) {
      words = json_string(words);
    }
    line.append(words.data(), words.data() + words.size());
  }

  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Message>(format_);
  }

 private:
  LogFormat format_;
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<Message>('*', format)
      .set_pattern(format == LogFormat::json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})"
                                             : "%Y-%m-%dT%H:%M:%S.%eZ %^%-7l%$ %*");
  return formatter;
}

std::string fatal_text(std::string_view message) { return fatal_text(message, format_in_use()); }

std::string fatal_text(std::string_view message, LogFormat format) {
  if (format == LogFormat::text) {
    return fmt::format("sluice: {}\n", message);
  }
  spdlog::memory_buf_t line;
  log_formatter(format)->format({"sluice", spdlog::level::critical, {message.data(), message.size()}}, line);
  return {line.data(), line.size()};
}

void start_log(LogLevel level, LogFormat format) {
  format_in_use() = format;
  auto logger = std::make_shared<spdlog::logger>("sluice", std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_formatter(log_formatter(format));
  logger->set_level(spdlog_level(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

std::string complaint_text(const k8s::Complaint& complaint) {
  const auto subject = complaint.object.empty()  ? complaint.where
                       : complaint.where.empty() ? complaint.object
                                                 : fmt::format("{} ({})", complaint.object, complaint.where);
  return subject.empty() ? complaint.reason : fmt::format("{}: {}", subject, complaint.reason);
}

std::string complaint_kind(std::string_view reason) {
  std::string kind;
  while (!reason.empty()) {
    const auto end = std::min(reason.find(' '), reason.size());
    const auto word = reason.substr(0, end);
    kind += word.find_first_of("0123456789/:\"") == std::string_view::npos ? word : "*";
    kind += ' ';
    reason.remove_prefix(std::min(end + 1, reason.size()));
  }
  return kind;
}

Complaints::Complaints(std::size_t capacity) : capacity_(capacity) {}

void Complaints::say(const k8s::Complaint& complaint, TimePoint now) {
  auto text = complaint_text(complaint);
  if (complaint.type == k8s::ComplaintType::recovery) {
    forget(complaint.object);
  } else if (!is_new(text)) {
    return;
  }
  log_suppressed(now);
  auto& kinds = rate_limits_[complaint.object.empty() ? complaint.where : complaint.object];
  auto kind = complaint_kind(complaint.reason);
  if (kinds.size() >= max_kinds && !kinds.contains(kind)) {
    kind.clear();
  }
  const auto [limit, is_first] = kinds.try_emplace(std::move(kind), RateLimit{now, 0, {}, complaint.type});
  if (is_first) {
    spdlog::log(level_of(complaint.type), "{}", text);
    // A problem that comes back must be read after its end. Recoveries are limited, too, so this happens once
    // a minute.
    if (complaint.type == k8s::ComplaintType::recovery) {
      std::erase_if(kinds, [&](const auto& other) {
        return other.second.suppressed == 0 && other.second.type == k8s::ComplaintType::problem;
      });
    }
  } else {
    ++limit->second.suppressed;
    limit->second.latest = std::move(text);
    limit->second.type = complaint.type;
  }
}

/// Cheap if nothing is due: within a minute there are complaints about few objects, unless many owners make
/// mistakes.
void Complaints::log_suppressed(TimePoint now) {
  if (now < next_check_) {
    return;
  }
  next_check_ = now + std::chrono::seconds(1);
  for (auto& [object, kinds] : rate_limits_) {
    for (auto& [kind, limit] : kinds) {
      if (limit.suppressed > 0 && now - limit.at >= pause) {
        spdlog::log(
            level_of(limit.type), "{}{}", limit.latest,
            limit.suppressed == 1 ? "" : fmt::format(" (and {} more like this)", limit.suppressed - 1));
        limit = {now, 0, {}, limit.type};
      }
    }
    std::erase_if(kinds, [now](const auto& kind) { return now - kind.second.at >= pause; });
  }
  std::erase_if(rate_limits_, [](const auto& object) { return object.second.empty(); });
}

void Complaints::forget(std::string_view object) {
  std::erase_if(order_, [&](const std::string& text) {
    const bool is_its = text.size() > object.size() && text.starts_with(object) && text[object.size()] == ':';
    if (is_its) {
      known_.erase(text);
    }
    return is_its;
  });
}

bool Complaints::is_new(const std::string& text) {
  if (!known_.insert(text).second) {
    return false;
  }
  order_.push_back(text);
  if (order_.size() > capacity_) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

}  // namespace lb::agent
