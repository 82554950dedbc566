// SPDX-License-Identifier: Apache-2.0
// The table of kube-proxy's fields and flags against upstream's types, and as docs/kube-proxy-config.md shows
// it (SEM-68).
#include "agent/options/kube_proxy_config_table.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "agent/options/config.hpp"
#include "agent/options/kube_proxy_config.hpp"
#include "agent/options/kube_proxy_flags.hpp"
#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"
#include "tests/unit/options/kube_proxy_config.hpp"

namespace {

using namespace lb::config_test;

/// Go's type names, as tests/e2e/partners/fields prints them.
std::string go_type(FieldType type) {
  switch (type) {
    case FieldType::text:
      return "string";
    case FieldType::boolean:
      return "bool";
    case FieldType::int32:
      return "int32";
    case FieldType::uint32:
      return "uint32";
    case FieldType::float32:
      return "float32";
    case FieldType::duration:
      return "Duration";
    case FieldType::log_duration:
      return "TimeOrMetaDuration";
    case FieldType::quantity:
      return "QuantityValue";
    case FieldType::texts:
      return "[]string";
    case FieldType::booleans:
      break;
  }
  return "map[string]bool";
}

TEST_CASE("SEM-68: the table has every field of kube-proxy's type, and no other") {
  std::set<std::string> ours;
  for (const auto& field : kube_proxy_fields()) {
    ours.insert(fmt::format("{}\t{}", field.path, go_type(field.type)));
  }
  CHECK(ours.size() == kube_proxy_fields().size());
  for (const auto* release : {"fields-1.36", "fields-1.37"}) {
    const auto lines = lines_of(corpus + release);
    CHECK(lines.size() > 60);
    CHECK(std::set<std::string>(lines.begin(), lines.end()) == ours);
  }
}

TEST_CASE("SEM-68: the table has every flag of kube-proxy, and no other") {
  std::set<std::string> ours;
  for (const auto& flag : kube_proxy_flags()) {
    ours.emplace(flag.name);
    INFO(flag.name);
    CHECK((flag.field.empty() || find_field(flag.field) != nullptr));
    CHECK((flag.second_field.empty() || find_field(flag.second_field) != nullptr));
    CHECK(flag.field.empty() == !flag.note.empty());
  }
  std::set<std::string> upstream;
  for (const auto* release : {"flags-1.36", "flags-1.37"}) {
    for (const auto& name : lines_of(corpus + release)) {
      upstream.insert(name);
    }
  }
  CHECK(upstream == ours);
}

TEST_CASE("the table's rows name options that there are, or say why there is none") {
  const auto options = agent("");
  for (const auto& field : kube_proxy_fields()) {
    INFO(field.path);
    if (field.use == FieldUse::mapped) {
      CHECK(options.flags.contains(std::string(field.option.substr(2))));
    } else {
      CHECK(field.option.empty());
      CHECK_FALSE(field.note.empty());
    }
    if (!field.default_value.empty()) {
      CHECK(parse_flag_value(field.type, field.default_value).has_value());
    }
  }
}

/// The table of docs/kube-proxy-config.md.
std::string document_table() {
  std::string text;
  for (const auto& field : kube_proxy_fields()) {
    const auto default_value = field.default_value.empty() ? "" : fmt::format("`{}`", field.default_value);
    const auto effect =
        field.use == FieldUse::mapped
            ? fmt::format("`{}`{}{}", field.option, field.note.empty() ? "" : ": ", field.note)
        : field.use == FieldUse::read ? fmt::format("read: {}", field.note)
                                      : fmt::format("no effect: {}", field.note);
    text += fmt::format("| `{}` | {} | {} |\n", field.path, default_value, effect);
  }
  return text;
}

TEST_CASE("the document shows the table") {
  const auto document = lb::test::content_of(lb::test::source_path("docs/kube-proxy-config.md"));
  INFO(document_table());
  CHECK(document.find(document_table()) != std::string::npos);
}

}  // namespace
