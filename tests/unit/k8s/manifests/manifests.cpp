// SPDX-License-Identifier: Apache-2.0
// The manifests' source against a real directory: the ways in which editors, kubelet and shells change files
// (REL-85), without any API server (SEM-79).
#include "k8s/manifests/manifests.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "k8s/objects/error.hpp"
#include "tests/unit/k8s/support.hpp"

using namespace lb::k8s;
using lb::k8s::testing::RecordingSink;
using lb::k8s::testing::service_yaml;

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using namespace std::chrono_literals;

const std::string web = service_yaml("web", "10.0.0.1");
const std::string web2 = service_yaml("web", "10.0.0.2");
const std::string web_told = "+Service default/web 10.0.0.1 80";
const std::string web2_told = "+Service default/web 10.0.0.2 80";

/// A directory, a source that watches it, and a context that runs until something is reported.
struct Fixture {
  fs::path base;
  fs::path path;
  boost::asio::io_context context;
  RecordingSink sink;
  std::optional<ManifestSource> source;

  Fixture() {
    auto name = (fs::temp_directory_path() / "lb-manifests-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    base = name;
    path = base / "manifests";
    fs::create_directory(path);
  }
  ~Fixture() { fs::remove_all(base); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  void start() {
    source.emplace(context, path.string(), sink);
    source->start();
  }
  void write(const fs::path& file, const std::string& text) { std::ofstream(path / file) << text; }

  /// Runs until `wanted` returns true; returns false after a time that no slow machine needs.
  bool run_until(const std::function<bool()>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + 5min;
    while (!wanted() && std::chrono::steady_clock::now() < deadline) {
      context.run_one_for(50ms);
    }
    return wanted();
  }
  /// The reported lines up to the next flush.
  Lines next() {
    run_until([&] { return !sink.lines.empty() && sink.lines.back() == "flush"; });
    return sink.take();
  }
  Lines next_complaints() {
    run_until([&] { return !sink.complaints.empty(); });
    return sink.take_complaints();
  }
  /// Checks that nothing else was reported before a change that this function makes.
  void expect_quiet() {
    static int count = 0;
    const auto name = "quiet-" + std::to_string(++count);
    write("zz.yaml", service_yaml(name, "10.9.9.9"));
    const auto lines = next();
    REQUIRE_FALSE(lines.empty());
    CHECK(lines[lines.size() - 2] == "+Service default/" + name + " 10.9.9.9 80");
    CHECK(lines.size() <= 3);
  }
};

}  // namespace

TEST_CASE("SEM-79 k8s source: the first scan reports all objects, then synced, before start returns") {
  Fixture f;
  f.write("a.yaml", web);
  f.write("b.json", R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}})");
  f.write("c.yaml", "a: [\n");
  f.write(".hidden.yaml", service_yaml("hidden", "10.0.0.9"));
  f.write("d.yaml~", service_yaml("backup", "10.0.0.9"));
  f.write("e.txt", "nothing");
  fs::create_directory(f.path / "f.yaml");
  f.start();
  CHECK(f.sink.take() == Lines{web_told, "+Node n1", "flush", "synced"});
  const auto complaints = f.sink.take_complaints();
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].starts_with("|c.yaml:"));
}

TEST_CASE("k8s source: an empty directory is a complete list") {
  Fixture f;
  f.start();
  CHECK(f.sink.take() == Lines{"synced"});
}

TEST_CASE("k8s source: what cannot start says what to do") {
  Fixture f;
  f.path = f.base / "missing";
  CHECK_THROWS_AS(f.start(), StartError);
  std::ofstream(f.base / "file") << "x";
  f.path = f.base / "file";
  CHECK_THROWS_AS(f.start(), StartError);
  CHECK(f.sink.take() == Lines{});
}

TEST_CASE("k8s source: files come, change and go") {
  Fixture f;
  f.start();
  f.sink.take();
  f.write("a.yaml", web);
  CHECK(f.next() == Lines{web_told, "flush"});
  f.write("a.yaml", web2);
  CHECK(f.next() == Lines{web2_told, "flush"});
  f.write("a.yaml", web2);
  f.expect_quiet();
  fs::remove(f.path / "a.yaml");
  CHECK(f.next() == Lines{"-Service default/web", "flush"});
}

TEST_CASE("k8s source: two writes within one tick are two changes") {
  Fixture f;
  f.start();
  for (int i = 1; i <= 20; ++i) {
    f.sink.take();
    const auto last = "10.0.0." + std::to_string(10 + i);
    f.write("a.yaml", service_yaml("web", "10.0.1." + std::to_string(10 + i)));
    f.context.poll();
    f.write("a.yaml", service_yaml("web", last));
    CHECK(f.run_until([&] {
      return !f.sink.lines.empty() && f.sink.lines.back() == "flush" &&
             f.sink.lines[f.sink.lines.size() - 2] == "+Service default/web " + last + " 80";
    }));
  }
}

TEST_CASE("k8s source: atomic rename, and an editor's ways of saving") {
  Fixture f;
  f.write("a.yaml", web);
  f.start();
  f.sink.take();
  f.write(".a.yaml.tmp", web2);
  fs::rename(f.path / ".a.yaml.tmp", f.path / "a.yaml");
  CHECK(f.next() == Lines{web2_told, "flush"});
  // As vi does: it makes a probe file, renames the old file to a backup, writes the new one, removes the
  // backup.
  f.write("4913", "");
  fs::remove(f.path / "4913");
  f.write(".a.yaml.swp", "binary");
  fs::rename(f.path / "a.yaml", f.path / "a.yaml~");
  f.write("a.yaml", web);
  fs::remove(f.path / "a.yaml~");
  fs::remove(f.path / ".a.yaml.swp");
  CHECK(f.next() == Lines{web_told, "flush"});
  fs::rename(f.path / "a.yaml", f.path / "b.yaml");
  f.expect_quiet();
}

TEST_CASE("REL-85 k8s source: a file is not read while it is written") {
  Fixture f;
  f.write("a.yaml", web);
  f.start();
  f.sink.take();
  const int fd = ::open((f.path / "a.yaml").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const auto half = web2.size() / 2;
  REQUIRE(::write(fd, web2.data(), half) == static_cast<ssize_t>(half));
  f.expect_quiet();
  CHECK(f.sink.complaints.empty());
  REQUIRE(::write(fd, web2.data() + half, web2.size() - half) == static_cast<ssize_t>(web2.size() - half));
  ::close(fd);
  CHECK(f.next() == Lines{web2_told, "flush"});
}

TEST_CASE("k8s source: a broken file is reported when it stays broken, and keeps its objects") {
  Fixture f;
  f.write("a.yaml", web);
  f.start();
  f.sink.take();
  f.write("a.yaml", "apiVersion: v1\nkind: [\n");
  const auto complaints = f.next_complaints();
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].starts_with("|a.yaml:"));
  f.write("a.yaml", "");
  CHECK(f.next_complaints().at(0).starts_with("|a.yaml:1|is empty"));
  f.expect_quiet();
  f.write("a.yaml", web2);
  CHECK(f.next() == Lines{web2_told, "flush"});
}

TEST_CASE("k8s source: a ConfigMap volume's ..data swap") {
  Fixture f;
  fs::create_directory(f.path / "..1");
  f.write("..1/a.yaml", web);
  fs::create_directory_symlink("..1", f.path / "..data");
  fs::create_symlink("..data/a.yaml", f.path / "a.yaml");
  f.start();
  CHECK(f.sink.take() == Lines{web_told, "flush", "synced"});
  fs::create_directory(f.path / "..2");
  f.write("..2/a.yaml", web2);
  fs::create_directory_symlink("..2", f.path / "..data_tmp");
  fs::rename(f.path / "..data_tmp", f.path / "..data");
  fs::remove_all(f.path / "..1");
  CHECK(f.next() == Lines{web2_told, "flush"});
  CHECK(f.sink.complaints.empty());
}

TEST_CASE("k8s source: the directory goes away, its objects stay until it is back") {
  Fixture f;
  f.write("a.yaml", web);
  f.start();
  f.sink.take();
  fs::rename(f.path, f.base / "elsewhere");
  const auto complaints = f.next_complaints();
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].find("cannot be read") != std::string::npos);
  CHECK(f.sink.take() == Lines{});
  fs::create_directory(f.base / "new");
  std::ofstream(f.base / "new" / "a.yaml") << web2;
  fs::rename(f.base / "new", f.path);
  CHECK(f.next() == Lines{web2_told, "flush"});
  // Changes in the new directory are reported, changes in the old one are not.
  std::ofstream(f.base / "elsewhere" / "b.yaml") << service_yaml("old", "10.0.0.3");
  f.expect_quiet();
  fs::remove_all(f.path);
  CHECK_FALSE(f.next_complaints().empty());
  CHECK(f.sink.take() == Lines{});
}

TEST_CASE("k8s source: a directory that is a swapped symbolic link") {
  Fixture f;
  fs::remove(f.path);
  fs::create_directory(f.base / "one");
  fs::create_directory(f.base / "two");
  std::ofstream(f.base / "one" / "a.yaml") << web;
  std::ofstream(f.base / "two" / "a.yaml") << web2;
  fs::create_directory_symlink("one", f.path);
  f.start();
  f.sink.take();
  fs::create_directory_symlink("two", f.base / "next");
  fs::rename(f.base / "next", f.path);
  CHECK(f.next() == Lines{web2_told, "flush"});
  f.expect_quiet();
}

TEST_CASE("REL-85 a lost event is compensated by a scan") {
  Fixture f;
  f.start();
  f.sink.take();
  // More events than the kernel's queue holds, while no one reads them.
  std::size_t queue = 16384;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> queue;
  const int noise = ::open((f.path / "noise").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int other = ::open((f.path / "other").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  for (std::size_t i = 0; i < queue; ++i) {
    // Alternate between two files: the kernel merges consecutive equal events.
    (void)!::pwrite(i % 2 == 0 ? noise : other, "x", 1, 0);
  }
  f.write("a.yaml", web);
  ::close(noise);
  ::close(other);
  CHECK(f.next() == Lines{web_told, "flush"});
}

TEST_CASE("k8s source: targets of symbolic links are seen by a rescan") {
  Fixture f;
  std::ofstream(f.base / "target") << web;
  fs::create_symlink(f.base / "target", f.path / "a.yaml");
  f.start();
  f.sink.take();
  std::ofstream(f.base / "target") << web2;
  CHECK(f.next() == Lines{web2_told, "flush"});
}

TEST_CASE("k8s source: a source that ends leaves nothing behind that runs") {
  Fixture f;
  f.start();
  f.sink.take();
  f.write("a.yaml", web);
  f.source.reset();
  f.context.run();
  CHECK(f.sink.take() == Lines{});
}
