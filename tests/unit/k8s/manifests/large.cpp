// REL-136: manifests that are too large, that take long, and that cannot be watched.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "k8s/manifests/directory.hpp"
#include "k8s/manifests/manifests.hpp"
#include "tests/unit/k8s/support.hpp"

using namespace lb::k8s;
using lb::k8s::testing::RecordingSink;
using lb::k8s::testing::service_yaml;

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A directory of manifests, removed at the end.
struct Manifests {
  fs::path path;
  Manifests() {
    auto name = (fs::temp_directory_path() / "lb-large-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  Manifests(const Manifests&) = delete;
  Manifests& operator=(const Manifests&) = delete;
  ~Manifests() { fs::remove_all(path); }
  void write(const std::string& file, const std::string& text) const { std::ofstream(path / file) << text; }
};

/// Counts what a scan reports.
struct Counter final : FileListener {
  int texts = 0;
  std::vector<std::string> refusals;
  void text(const std::string& /*name*/, std::string_view /*text*/) override { ++texts; }
  void unreadable(const std::string& name, std::string reason) override {
    refusals.push_back(name + " " + reason);
  }
  void gone(const std::string& /*name*/) override {}
};

/// A source, and the most objects that one handler of its context has reported.
struct Watched {
  boost::asio::io_context context;
  RecordingSink sink;
  ManifestSource source;
  std::size_t most = 0;
  std::size_t handlers = 0;

  explicit Watched(const Manifests& manifests) : source(context, manifests.path.string(), sink) {
    source.start();
    sink.take();
  }
  /// Runs until the next flush; returns the lines before it.
  std::size_t changes() {
    most = handlers = 0;
    const auto deadline = std::chrono::steady_clock::now() + 10min;
    while ((sink.lines.empty() || sink.lines.back() != "flush") &&
           std::chrono::steady_clock::now() < deadline) {
      const auto before = sink.lines.size();
      handlers += context.run_one_for(50ms);
      most = std::max(most, sink.lines.size() - before);
    }
    return sink.take().size() - 1;
  }
};

/// In a process of its own, which may have no inotify instance: returns 0 if a source follows changes
/// nevertheless.
int follow_without_inotify(const Manifests& manifests) {
  if (::unshare(CLONE_NEWUSER) != 0) return 3;
  std::ofstream limit("/proc/sys/user/max_inotify_instances");
  limit << "0" << std::endl;
  if (!limit) return 4;
  Watched watched(manifests);
  const auto complaints = watched.sink.take_complaints();
  const bool told = std::ranges::any_of(complaints, [](const auto& each) {
    return each.find("cannot be watched") != std::string::npos &&
           each.find("scanned every 2 s") != std::string::npos;
  });
  if (!told) return 5;
  manifests.write("later.yaml", service_yaml("later", "10.0.0.2"));
  return watched.changes() == 1 ? 0 : 6;
}

}  // namespace

TEST_CASE(
    "REL-136 a file that is too large is refused by its size, and not looked into again until it changes") {
  const Manifests manifests;
  manifests.write("sparse.yaml", "a");
  fs::resize_file(manifests.path / "sparse.yaml", Directory::max_bytes + 1);
  std::this_thread::sleep_for(60ms);
  Directory directory(manifests.path.string());
  Counter counter;
  CHECK_FALSE(directory.scan({}, {}, counter));
  CHECK(counter.refusals == std::vector<std::string>{"sparse.yaml is larger than 256 MiB"});
  CHECK_FALSE(directory.scan({}, {}, counter));
  CHECK(counter.refusals.size() == 1);
  fs::resize_file(manifests.path / "sparse.yaml", 1);
  CHECK_FALSE(directory.scan({}, {}, counter));
  CHECK(counter.texts == 1);
}

TEST_CASE("REL-136 40,000 services in one file come, change and go in turns") {
  constexpr std::size_t count = 40'000;
  constexpr std::size_t turn = 500;
  const auto text = [](int port) {
    std::string all;
    for (std::size_t number = 0; number < count; ++number) {
      all += fmt::format(
          R"({{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s{}"}},"spec":{{"clusterIP":"10.1.{}.{}","ports":[{{"port":{}}}]}}}})",
          number, number / 250, number % 250 + 1, port);
      all += "\n";
    }
    return all;
  };
  const Manifests manifests;
  Watched watched(manifests);
  const auto expect_turns = [&](const char* what, std::size_t changes) {
    INFO(what);
    CHECK(watched.changes() == changes);
    CHECK(watched.most <= turn + 1);  // the last turn flushes, too
    CHECK(watched.handlers > 2 * count / turn);
  };
  manifests.write("all.json", text(80));
  expect_turns("come", count);
  manifests.write("all.json", text(81));
  expect_turns("change", count);
  // What arrives while a large file is read is not forgotten.
  manifests.write("all.json", text(82));
  manifests.write("small.yaml", service_yaml("small", "10.0.0.1"));
  auto changes = watched.changes();
  while (changes < count + 1) changes += watched.changes();
  CHECK(changes == count + 1);
  fs::remove(manifests.path / "all.json");
  expect_turns("go", count);
}

TEST_CASE("REL-136 a source that ends while a large file is read leaves it") {
  const Manifests manifests;
  std::string keys;
  for (int number = 0; number < 200'000; ++number) keys += fmt::format("? {{k: {}}}\n: v\n", number);
  Watched watched(manifests);
  manifests.write("keys.yaml", keys);
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) watched.context.run_one_for(10ms);
}

TEST_CASE("REL-136 without inotify the directory is scanned, and the log says so") {
  const Manifests manifests;
  manifests.write("first.yaml", service_yaml("first", "10.0.0.1"));
  const auto child = ::fork();
  if (child == 0) ::_exit(follow_without_inotify(manifests));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
