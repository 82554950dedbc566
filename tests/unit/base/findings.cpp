// SPDX-License-Identifier: Apache-2.0
// Findings, their severity, and how `sluice check` shows them.
#include "agent/base/findings.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <catch2/catch_test_macros.hpp>

#include "agent/commands/show.hpp"

namespace {

using namespace lb::agent;
namespace json = boost::json;

std::vector<Finding> some() {
  return {{"kernel", Severity::ok, "Linux 6.12", ""},
          {"feature tcx", Severity::warning, "absent; instead: clsact", "Linux 6.6 has it"}};
}

TEST_CASE("an agent starts with warnings, and not where something is missing") {
  CHECK(would_start({}));
  CHECK(would_start(some()));
  auto missing = some();
  missing.push_back({"device eth7", Severity::missing, "there is no network device eth7", "name another"});
  CHECK_FALSE(would_start(missing));
}

TEST_CASE("what is missing ends a start and is listed by a check") {
  const StartError error("no eth7", "name another");
  CHECK(std::string(error.what()) == "no eth7: name another");
  Findings listed(Findings::Missing::is_listed);
  CHECK_FALSE(listed.need("device", [&] { throw StartError(error); }));
  CHECK(listed.need("kernel", [] {}));
  CHECK(listed.all() == std::vector<Finding>{{"device", Severity::missing, "no eth7", "name another"}});
  Findings ending(Findings::Missing::ends_start);
  CHECK_THROWS_AS(ending.need("device", [&] { throw StartError(error); }), StartError);
  const StartError whole("one message: with its advice");
  CHECK(whole.found() == whole.what());
  CHECK(whole.advice().empty());
}

TEST_CASE("findings as a table") {
  CHECK(show_findings(some(), Output::table) ==
        "VERDICT  WHAT         FOUND\n"
        "ok       kernel       Linux 6.12\n"
        "warning  feature tcx  absent; instead: clsact\n"
        "                      -> Linux 6.6 has it\n"
        "\n"
        "An agent with these options would start; warnings: 1.\n");
  const std::vector<Finding> missing = {{"bpf()", Severity::missing, "refused", "allow it"}};
  CHECK(show_findings(missing, Output::table)
            .ends_with("An agent with these options would not start; missing: 1, warnings: 0.\n"));
}

TEST_CASE("findings as JSON") {
  const auto object = json::parse(show_findings(some(), Output::json)).as_object();
  CHECK(object.at("starts").as_bool());
  const auto& findings = object.at("findings").as_array();
  REQUIRE(findings.size() == 2);
  CHECK_FALSE(findings[0].as_object().contains("advice"));
  const auto& tcx = findings[1].as_object();
  CHECK(tcx.at("what").as_string() == "feature tcx");
  CHECK(tcx.at("verdict").as_string() == "warning");
  CHECK(tcx.at("found").as_string() == "absent; instead: clsact");
  CHECK(tcx.at("advice").as_string() == "Linux 6.6 has it");
  const std::vector<Finding> missing = {{"bpf()", Severity::missing, "refused", "allow it"}};
  CHECK_FALSE(json::parse(show_findings(missing, Output::json)).as_object().at("starts").as_bool());
}

}  // namespace
