// SPDX-License-Identifier: Apache-2.0
// Files in, changes of objects out: documents, lists, broken parts, moved objects, duplicates, grace times
// (REL-85, 86).
#include "k8s/manifests/manifest_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/unit/k8s/support.hpp"

using namespace lb::k8s;
using lb::k8s::testing::RecordingSink;
using lb::k8s::testing::service_yaml;
using lb::k8s::testing::slice_yaml;

namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;

/// A set with a clock that the test advances.
struct Fixture {
  RecordingSink sink;
  ManifestSet set{sink};
  ManifestSet::TimePoint now{};

  Lines put(const std::string& file, const std::string& text) {
    set.put(file, text, now);
    return apply();
  }
  Lines erase(const std::string& file) {
    set.erase(file, now);
    return apply();
  }
  Lines apply() {
    set.apply(now);
    return sink.take();
  }
  Lines complaints_after(milliseconds time) {
    now += time;
    set.complaints().report_settled(sink, now);
    return sink.take_complaints();
  }
  Lines complaints() { return complaints_after(ComplaintBook::delay); }
};

const std::string web = service_yaml("web", "10.0.0.1");
const std::string dns = service_yaml("dns", "10.0.0.2");
const std::string web_told = "+Service default/web 10.0.0.1 80";
const std::string dns_told = "+Service default/dns 10.0.0.2 80";
const std::string broken = "apiVersion: v1\nkind: [Service\nmetadata: {}\n";

}  // namespace

TEST_CASE("k8s manifests: what one file may hold") {
  struct Row {
    const char* what;
    std::string file;
    std::string text;
    Lines reported;
  };
  const std::string web_json =
      R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"clusterIP":"10.0.0.1","ports":[{"port":80}]}})";
  const std::string dns_item =
      R"({"metadata":{"name":"dns"},"spec":{"clusterIP":"10.0.0.2","ports":[{"port":80}]}})";
  const Row rows[] = {
      {"one document", "a.yaml", web, {web_told, "flush"}},
      {"marker first", "a.yaml", "---\n" + web, {web_told, "flush"}},
      {"directives, byte order mark", "a.yaml", "\xef\xbb\xbf%YAML 1.2\n---\n" + web, {web_told, "flush"}},
      {"two documents", "a.yml", web + "---\n" + dns, {dns_told, web_told, "flush"}},
      {"two documents, end marker", "a.yaml", web + "...\n---\n" + dns, {dns_told, web_told, "flush"}},
      {"end marker alone parts documents", "a.yaml", web + "...\n" + dns, {dns_told, web_told, "flush"}},
      {"empty documents and comments",
       "a.yaml",
       "---\n---\n# x\n---\n" + web + "---\n\n---\n",
       {web_told, "flush"}},
      {"content on the marker's line",
       "a.yaml",
       "--- " + web_json + "\n---\n" + dns,
       {dns_told, web_told, "flush"}},
      {"Windows line ends",
       "a.yaml",
       "apiVersion: v1\r\nkind: Service\r\nmetadata: {name: web}\r\nspec:\r\n  clusterIP: 10.0.0.1\r\n  "
       "ports: [{port: 80}]\r\n---\r\n" +
           dns,
       {dns_told, web_told, "flush"}},
      {"JSON", "a.json", web_json, {web_told, "flush"}},
      {"JSON, one after the other",
       "a.json",
       web_json + "\n" + R"({"apiVersion":"v1","kind":"Service",)" + dns_item.substr(1),
       {dns_told, web_told, "flush"}},
      {"JSON in YAML", "a.yaml", web_json + "\n---\n" + dns, {dns_told, web_told, "flush"}},
      {"flow YAML that is not valid JSON",
       "a.yaml",
       "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.0.0.1, ports: [{port: "
       "80}]}}",
       {web_told, "flush"}},
      {"List",
       "a.json",
       R"({"apiVersion":"v1","kind":"List","items":[)" + web_json + "]}",
       {web_told, "flush"}},
      {"List, kind last",
       "a.json",
       R"({"apiVersion":"v1","items":[)" + web_json + R"(],"kind":"List"})",
       {web_told, "flush"}},
      {"ServiceList without items' kinds",
       "a.json",
       R"({"apiVersion":"v1","kind":"ServiceList","items":[)" + dns_item + "]}",
       {dns_told, "flush"}},
      {"List in YAML",
       "a.yaml",
       "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: web}\n  "
       "spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}\n",
       {web_told, "flush"}},
      {"empty List", "a.json", R"({"apiVersion":"v1","kind":"List","items":[]})", {}},
      {"comments only", "a.yaml", "# nothing\n", {}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    Fixture fixture;
    CHECK(fixture.put(row.file, row.text) == row.reported);
    CHECK(fixture.complaints() == Lines{});
  }
}

TEST_CASE("k8s manifests: only what changed is reported, deletions first") {
  Fixture f;
  CHECK(f.put("a.yaml", web + "---\n" + slice_yaml("web-1", "web", "10.1.0.1")) ==
        Lines{web_told, "+EndpointSlice default/web-1 of web 10.1.0.1", "flush"});
  CHECK(f.put("a.yaml", web + "---\n" + slice_yaml("web-1", "web", "10.1.0.1") + "# more\n") == Lines{});
  CHECK(f.put("a.yaml", web + "---\n" + slice_yaml("web-1", "web", "10.1.0.2")) ==
        Lines{"+EndpointSlice default/web-1 of web 10.1.0.2", "flush"});
  CHECK(f.put("a.yaml", web + "---\n" + slice_yaml("web-2", "web", "10.1.0.2")) ==
        Lines{"-EndpointSlice default/web-1", "+EndpointSlice default/web-2 of web 10.1.0.2", "flush"});
  CHECK(f.put("b.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n") == Lines{"+Node n1", "flush"});
  CHECK(f.erase("a.yaml") == Lines{"-Service default/web", "-EndpointSlice default/web-2", "flush"});
  CHECK(f.erase("a.yaml") == Lines{});
  CHECK(f.erase("b.yaml") == Lines{"-Node n1", "flush"});
}

TEST_CASE("k8s manifests: a broken document leaves its file's objects and the other documents alone") {
  struct Row {
    const char* what;
    std::string text;
    Lines reported;
    const char* complaint;  // part of the only complaint
  };
  // Before the change: web and dns in one file.
  const auto moved = service_yaml("web", "10.0.0.9");
  const std::string moved_told = "+Service default/web 10.0.0.9 80";
  const Row rows[] = {
      {"broken second document",
       moved + "---\n" + broken,
       {moved_told, "flush"},
       "|a.yaml:10|is not valid YAML"},
      {"broken first document",
       broken + "---\n" + moved,
       {moved_told, "flush"},
       "|a.yaml:3|is not valid YAML"},
      {"half-written",
       moved + "---\napiVersion: v1\nkind: \"Serv",
       {moved_told, "flush"},
       "|a.yaml:9|is not valid YAML"},
      {"empty", "", {}, "|a.yaml:1|is empty"},
      {"white space", " \n\n", {}, "|a.yaml:1|is empty"},
      {"no object", "- 1\n- 2\n", {}, "|a.yaml:1|is not an object"},
      {"not UTF-8", moved + "---\nx: 1\ny: \xff\n", {moved_told, "flush"}, "|a.yaml:9|is not UTF-8"},
      {"without a name",
       "apiVersion: v1\nkind: Service\nmetadata: {}\n",
       {},
       "|a.yaml:3|metadata.name is missing"},
      {"name of a wrong type",
       "apiVersion: v1\nkind: Service\nmetadata:\n  name: 7\n",
       {},
       "|a.yaml:4|metadata.name is a number where a string is expected"},
      {"known object, wrong type",
       dns + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports: x\n",
       {},
       "Service default/web|a.yaml:12|spec.ports is a string where a list is expected; the last good state "
       "stays"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    Fixture f;
    REQUIRE(f.put("a.yaml", web + "---\n" + dns).size() == 3);
    CHECK(f.put("a.yaml", row.text) == row.reported);
    const auto complaints = f.complaints();
    REQUIRE(complaints.size() == 1);
    CAPTURE(complaints[0]);
    CHECK(complaints[0].find(row.complaint) != std::string::npos);
    CHECK(complaints[0].find("last good state stays") != std::string::npos);
    // After the repair, objects that are no longer defined are removed.
    const auto after = f.put("a.yaml", web);
    CHECK(std::ranges::find(after, "-Service default/dns") != after.end());
    CHECK(f.complaints() == Lines{});
  }
}

TEST_CASE("k8s manifests: broken JSON says its line, and the objects before it count") {
  Fixture f;
  const std::string list =
      "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n"
      "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"web\"}, \"spec\": "
      "{\"clusterIP\": \"10.0.0.1\", \"ports\": [{\"port\": 80}]}},\n"
      "{\"apiVersion\": \"v1\", \"kind\": \"Service\" \"metadata\": {\"name\": \"dns\"}}\n]}\n";
  CHECK(f.put("a.json", list) == Lines{web_told, "flush"});
  CHECK(f.complaints().at(0).starts_with("|a.json:3|is not valid JSON"));
  CHECK(f.put("b.json", "{\"a\":\n1,\n") == Lines{});
  CHECK(f.complaints().at(0).starts_with("|b.json:2|ends in the middle of a JSON object"));
  CHECK(f.put("c.json", "hello\n") == Lines{});
  CHECK(f.complaints().at(0).starts_with("|c.json:1|is not a JSON object"));
}

TEST_CASE("k8s manifests: a problem inside an object says object, file, line and field") {
  Fixture f;
  const auto text =
      "# first\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  clusterIP: 10.0.0.1\n  "
      "ports:\n  - port: 80\n  - name: b\n    port: 0\n";
  CHECK(f.put("a.yaml", text) == Lines{web_told, "flush"});
  CHECK(
      f.complaints() ==
      Lines{"Service default/web|a.yaml:10|spec.ports[1].port 0 is not in 1 to 65535; the port is skipped"});
}

TEST_CASE("k8s manifests: kinds that are not read are named once") {
  Fixture f;
  CHECK(f.put("a.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---\n" + web) ==
        Lines{web_told, "flush"});
  const auto complaints = f.complaints();
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].starts_with("|a.yaml:1|kind \"Deployment\" of apiVersion \"apps/v1\" is not read"));
}

TEST_CASE("k8s manifests: an object moves between files without a gap, in whatever order") {
  Fixture f;
  f.put("a.yaml", web);
  f.set.erase("a.yaml", f.now);
  CHECK(f.put("b.yaml", web) == Lines{});
  f.set.put("a.yaml", web, f.now);
  f.set.erase("b.yaml", f.now);
  CHECK(f.apply() == Lines{});
  CHECK(f.put("c.yaml", web) == Lines{});
  CHECK(f.erase("a.yaml") == Lines{});
  CHECK(f.complaints() == Lines{});
}

TEST_CASE("k8s manifests: of two definitions the first file wins, and both are named") {
  Fixture f;
  CHECK(f.put("b.yaml", web) == Lines{web_told, "flush"});
  CHECK(f.put("c.yaml", service_yaml("web", "10.0.0.3")) == Lines{});
  CHECK(f.complaints() == Lines{"Service default/web|c.yaml:1|is already defined in b.yaml, which wins"});
  CHECK(f.put("a.yaml", service_yaml("web", "10.0.0.4")) ==
        Lines{"+Service default/web 10.0.0.4 80", "flush"});
  CHECK(f.complaints() == Lines{"Service default/web|b.yaml:1|is already defined in a.yaml, which wins",
                                "Service default/web|c.yaml:1|is already defined in a.yaml, which wins"});
  CHECK(f.erase("a.yaml") == Lines{web_told, "flush"});
  CHECK(f.erase("b.yaml") == Lines{"+Service default/web 10.0.0.3 80", "flush"});
  f.complaints();
  CHECK(f.erase("c.yaml") == Lines{"-Service default/web", "flush"});
  CHECK(f.put("d.yaml", web + "---\n" + service_yaml("web", "10.0.0.5")) == Lines{web_told, "flush"});
  CHECK(f.complaints() == Lines{"Service default/web|d.yaml:8|is already defined in line 1, which wins"});
}

TEST_CASE("SEM-2 a slice that becomes headless goes away, and comes back") {
  Fixture f;
  const auto slice = slice_yaml("web-1", "web", "10.1.0.1");
  auto headless = slice;
  headless.replace(headless.find("labels: {"), 9, "labels: {service.kubernetes.io/headless: \"\", ");
  f.put("a.yaml", slice);
  CHECK(f.put("a.yaml", headless) == Lines{"-EndpointSlice default/web-1", "flush"});
  CHECK(f.put("a.yaml", slice) == Lines{"+EndpointSlice default/web-1 of web 10.1.0.1", "flush"});
}

TEST_CASE("REL-36: a slice of ten megabytes in a manifest is taken, or refused, without harm to others") {
  Fixture f;
  std::string text =
      R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"default","name":"huge",)"
      R"("labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","ports":[{"name":"","port":80}],)"
      R"("endpoints":[)";
  for (unsigned i = 0; text.size() < (std::size_t{10} << 20U); ++i) {
    text += fmt::format(R"({{"addresses":["10.{}.{}.{}"]}},)", i >> 16U & 0xffU, i >> 8U & 0xffU, i & 0xffU);
  }
  f.set.put("web.yaml", web, f.now);
  auto reported = f.put("huge.json", text + R"({"addresses":["10.9.9.9"]}]})");
  REQUIRE(reported.size() == 3);
  CHECK(std::ranges::find(reported, web_told) != reported.end());
  CHECK(std::ranges::any_of(reported, [](const auto& line) { return line.ends_with(" 10.9.9.9"); }));
  CHECK(f.put("huge.json", text).empty());  // truncated: the last good state stays
  CHECK(f.complaints().size() == 1);
  CHECK(f.erase("huge.json") == Lines{"-EndpointSlice default/huge", "flush"});
}

TEST_CASE("k8s manifests: an unreadable file keeps its objects") {
  Fixture f;
  f.put("a.yaml", web);
  f.set.unreadable("a.yaml", "cannot be opened: Permission denied", f.now);
  CHECK(f.apply() == Lines{});
  CHECK(f.complaints() == Lines{"|a.yaml|cannot be opened: Permission denied; the last good state stays"});
  CHECK(f.erase("a.yaml") == Lines{"-Service default/web", "flush"});
}

TEST_CASE("k8s manifests: complaints are reported once, when they last") {
  Fixture f;
  f.put("a.yaml", broken);
  CHECK(f.set.complaints().due() == f.now + ComplaintBook::delay);
  CHECK(f.complaints_after(milliseconds(100)) == Lines{});
  // The same problem on another line counts as the same problem, and its time continues.
  f.put("a.yaml", "# moved down\n" + broken);
  CHECK(f.complaints_after(milliseconds(150)).size() == 1);
  CHECK_FALSE(f.set.complaints().due());
  f.put("a.yaml", broken);
  CHECK(f.complaints() == Lines{});
  // A problem that disappears and returns is reported again.
  f.put("a.yaml", web);
  f.put("a.yaml", broken);
  CHECK(f.complaints().size() == 1);
  // A file that is half-written for a moment is not reported at all.
  f.put("b.yaml", broken);
  f.now += milliseconds(100);
  f.put("b.yaml", dns);
  CHECK(f.complaints() == Lines{});
}
