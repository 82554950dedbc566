// The log: how a line looks, and what is said only once.
#include "agent/log.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <boost/json/serialize.hpp>
#include <utility>

namespace lb::agent {
namespace {

/// "%*": the message as a JSON string.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    const auto text =
        boost::json::serialize(boost::json::string_view(message.payload.data(), message.payload.size()));
    line.append(text.data(), text.data() + text.size());
  }

  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
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
  if (format == LogFormat::json) {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%-7l%$ %v");
  }
  return formatter;
}

void start_log(LogLevel level, LogFormat format) {
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

Complaints::Complaints(std::size_t capacity) : capacity_(capacity) {}

void Complaints::say(const k8s::Complaint& complaint) {
  if (const auto text = complaint_text(complaint); is_new(text)) {
    spdlog::warn("{}", text);
  }
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
