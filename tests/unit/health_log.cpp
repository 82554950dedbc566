// Log lines: readable text, valid JSON whatever the message holds, complaints once.
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "agent/log.hpp"

namespace {

using namespace lb::agent;

/// Everything that is logged while it lives.
class Captured {
 public:
  explicit Captured(LogFormat format) : before_(spdlog::default_logger()) {
    auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text_));
    logger->set_formatter(log_formatter(format));
    spdlog::set_default_logger(std::move(logger));
  }
  ~Captured() { spdlog::set_default_logger(before_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

TEST_CASE("a JSON line stays JSON whatever the message holds") {
  const Captured log(LogFormat::json);
  const std::string message = "quotes \" and \\ and\nlines";
  spdlog::warn("{}", message);
  const auto line = boost::json::parse(log.text());
  CHECK(line.at("message").as_string() == message.c_str());
  CHECK(line.at("level").as_string() == "warning");
  CHECK(line.at("time").as_string().back() == 'Z');
}

TEST_CASE("a text line shows level and message") {
  const Captured log(LogFormat::text);
  spdlog::info("hello");
  CHECK(log.text().ends_with("info    hello\n"));
}

TEST_CASE("a complaint names what is known") {
  CHECK(complaint_text({"Service default/web", "web.yaml:12", "port 0"}) ==
        "Service default/web (web.yaml:12): port 0");
  CHECK(complaint_text({"Service default/web", "", "port 0"}) == "Service default/web: port 0");
  CHECK(complaint_text({"", "web.yaml:1", "not YAML"}) == "web.yaml:1: not YAML");
  CHECK(complaint_text({"", "", "lost"}) == "lost");
}

TEST_CASE("a complaint is said once, and forgotten when too many are known") {
  const Captured log(LogFormat::text);
  Complaints complaints(2);
  const auto lines = [&log] {
    const auto text = log.text();
    return std::count(text.begin(), text.end(), '\n');
  };
  complaints.say({"a", "", "bad"});
  complaints.say({"a", "", "bad"});
  CHECK(lines() == 1);
  complaints.say({"a", "", "worse"});
  CHECK(lines() == 2);
  complaints.say({"b", "", "bad"});
  complaints.say({"a", "", "bad"});
  CHECK(lines() == 4);
}

}  // namespace
