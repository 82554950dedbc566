// SPDX-License-Identifier: Apache-2.0
// Log lines: readable text, valid JSON for any message, each complaint once.
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "agent/base/log.hpp"

namespace {

using namespace lb::agent;

/// Captures everything that is logged while this object lives.
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
  CHECK(line.at("message").as_string() == "quotes \" and \\ and\\nlines");
  CHECK(line.at("level").as_string() == "warning");
  CHECK(line.at("time").as_string().back() == 'Z');
}

TEST_CASE("no name is a terminal's command, another line, nor anything but UTF-8") {
  for (const auto format : {LogFormat::text, LogFormat::json}) {
    const Captured log(format);
    spdlog::info("{}", "pod\x1b[31m\xff\nserving");
    const std::string slash = format == LogFormat::json ? "\\\\" : "\\";
    CHECK(log.text().find(fmt::format("pod{0}x1b[31m{0}xff{0}nserving", slash)) != std::string::npos);
    CHECK(std::ranges::count(log.text(), '\n') == 1);
  }
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

TEST_CASE("a complaint is logged once, and forgotten when too many are known") {
  const Captured log(LogFormat::text);
  Complaints complaints(2);
  const auto lines = [&log] {
    const auto text = log.text();
    return std::count(text.begin(), text.end(), '\n');
  };
  Complaints::TimePoint now;
  const auto say = [&](const lb::k8s::Complaint& complaint) {
    complaints.say(complaint, now);
    now += Complaints::pause;
  };
  say({"a", "", "bad"});
  say({"a", "", "bad"});
  CHECK(lines() == 1);
  say({"a", "", "worse"});
  CHECK(lines() == 2);
  say({"b", "", "bad"});
  say({"a", "", "bad"});
  CHECK(lines() == 4);
}

TEST_CASE("the kind of a complaint leaves out what it is about") {
  CHECK(complaint_kind("external IP 192.0.2.1 is refused: it is an address of this node that --external-ips "
                       "does not name") ==
        complaint_kind("external IP 2001:db8::7 is refused: it is an address of this node that "
                       "--external-ips does not name"));
  CHECK(complaint_kind("default/a:http holds it") == complaint_kind("default/b holds it"));
  CHECK(complaint_kind("\"x\" is not a label key") == complaint_kind("\"y\" is not a label key"));
  CHECK(complaint_kind("bad") != complaint_kind("worse"));
}

// Two Services that take the same 10,000 addresses from each other all day cause one log line a minute each.
TEST_CASE("in a minute each kind of trouble of an object is logged once, the rest counted in one line") {
  const Captured log(LogFormat::text);
  Complaints complaints;
  const auto lines = [&log] {
    const auto text = log.text();
    return std::count(text.begin(), text.end(), '\n');
  };
  Complaints::TimePoint now;
  for (int at = 0; at < 10'000; ++at) {
    complaints.say({"Service a/one", "", fmt::format("192.0.2.{} is lost to b/{}", at % 256, at)}, now);
  }
  CHECK(lines() == 1);
  complaints.say({"Service b/two", "", "192.0.2.1 is lost to a/one"}, now);
  complaints.say({"Service a/one", "", "192.0.2.1 is refused"}, now);
  CHECK(lines() == 3);
  complaints.log_suppressed(now + Complaints::pause - std::chrono::seconds(1));
  CHECK(lines() == 3);
  complaints.log_suppressed(now + Complaints::pause);
  CHECK(lines() == 4);
  CHECK(log.text().ends_with("Service a/one: 192.0.2.15 is lost to b/9999 (and 9998 more like this)\n"));
  complaints.say({"Service a/one", "", "192.0.2.77 is lost to b/x"}, now + Complaints::pause);
  complaints.log_suppressed(now + 3 * Complaints::pause);
  CHECK(lines() == 5);
  CHECK(log.text().ends_with("192.0.2.77 is lost to b/x\n"));
}

TEST_CASE("a recovery is logged as information, and the same trouble after it once more") {
  const Captured log(LogFormat::text);
  Complaints complaints;
  Complaints::TimePoint now;
  const lb::k8s::Complaint lost{"Service a/one", "", "192.0.2.1 is lost to b/two"};
  const lb::k8s::Complaint served{
      "Service a/one", "", "all is served again", "", "", lb::k8s::ComplaintType::recovery};
  for (const std::ptrdiff_t lines : {2, 4}) {
    complaints.say(lost, now);
    complaints.say(served, now);
    const auto text = log.text();
    CHECK(std::ranges::count(text, '\n') == lines);
    CHECK(text.ends_with("info    Service a/one: all is served again\n"));
    now += Complaints::pause;
  }
}

TEST_CASE("REL-36 the log's last line about a problem that comes and goes is not its end") {
  const Captured log(LogFormat::text);
  Complaints complaints;
  const lb::k8s::Complaint lost{"Service a/one", "", "192.0.2.1 is lost to b/two"};
  const lb::k8s::Complaint served{
      "Service a/one", "", "all is served again", "", "", lb::k8s::ComplaintType::recovery};
  for (int flap = 0; flap < 100; ++flap) {
    complaints.say(lost, {});
    complaints.say(served, {});
    complaints.say(lost, {});
    const auto text = log.text();
    CHECK(std::ranges::count(text, '\n') == 3);
    CHECK(text.ends_with("192.0.2.1 is lost to b/two\n"));
  }
}

TEST_CASE("kinds without end about one object are a bounded number of lines a minute") {
  const Captured log(LogFormat::text);
  Complaints complaints;
  for (int at = 0; at < 1000; ++at) {
    complaints.say({"Service a/one", "", std::string(static_cast<std::size_t>(at) + 1, 'x')}, {});
  }
  const auto text = log.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == Complaints::max_kinds + 1);
}

}  // namespace
