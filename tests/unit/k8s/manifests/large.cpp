// SPDX-License-Identifier: Apache-2.0
// REL-136: manifests that are too large, that take long, and that cannot be watched.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "k8s/manifests/directory.hpp"
#include "k8s/manifests/manifest_set.hpp"
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
  if (::unshare(CLONE_NEWUSER) != 0) {
    return 3;
  }
  std::ofstream limit("/proc/sys/user/max_inotify_instances");
  limit << "0" << std::endl;
  if (!limit) {
    return 4;
  }
  Watched watched(manifests);
  const auto complaints = watched.sink.take_complaints();
  const bool told = std::ranges::any_of(complaints, [](const auto& each) {
    return each.find("cannot be watched") != std::string::npos &&
           each.find("scanned every 2 s") != std::string::npos;
  });
  if (!told) {
    return 5;
  }
  manifests.write("later.yaml", service_yaml("later", "10.0.0.2"));
  return watched.changes() == 1 ? 0 : 6;
}

/// Likewise one that may not start a thread, for a while.
int follow_without_threads(const Manifests& manifests) {
  Watched watched(manifests);
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{filter.size(), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    return 3;
  }
  manifests.write("large.yaml", service_yaml("large", "10.0.0.1") + std::string(1U << 20U, '\n'));
  std::vector<std::string> complaints;
  const auto deadline = std::chrono::steady_clock::now() + 1min;
  while (complaints.empty() && std::chrono::steady_clock::now() < deadline) {
    watched.context.run_one_for(50ms);
    complaints = watched.sink.take_complaints();
  }
  if (complaints.size() != 1 || complaints[0].find("no thread can be started") == std::string::npos) {
    return 4;
  }
  fs::remove(manifests.path / "large.yaml");
  manifests.write("small.yaml", service_yaml("small", "10.0.0.2"));
  return watched.changes() == 1 ? 0 : 5;
}

int code_of_child(const std::function<int()>& child) {
  const auto process = ::fork();
  if (process == 0) {
    ::_exit(child());
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
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
  while (changes < count + 1) {
    changes += watched.changes();
  }
  CHECK(changes == count + 1);
  fs::remove(manifests.path / "all.json");
  expect_turns("go", count);
}

TEST_CASE("REL-136 a source that ends while a large file is read leaves it") {
  const Manifests manifests;
  std::string keys;
  for (int number = 0; number < 200'000; ++number) {
    keys += fmt::format("? {{k: {}}}\n: v\n", number);
  }
  Watched watched(manifests);
  manifests.write("keys.yaml", keys);
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) {
    watched.context.run_one_for(10ms);
  }
}

TEST_CASE("REL-136 without inotify the directory is scanned, and the log says so") {
  const Manifests manifests;
  manifests.write("first.yaml", service_yaml("first", "10.0.0.1"));
  CHECK(code_of_child([&] { return follow_without_inotify(manifests); }) == 0);
}

TEST_CASE(
    "REL-136 while the node has no thread left, what changes with a large file waits, and the source goes "
    "on") {
  const Manifests manifests;
  CHECK(code_of_child([&] { return follow_without_threads(manifests); }) == 0);
}

TEST_CASE("REL-136 10,000 files come and go in turns") {
  constexpr std::size_t count = 10'000;
  const Manifests manifests;
  Watched watched(manifests);
  const auto all = [&](const auto& each) {
    for (std::size_t number = 0; number < count; ++number) {
      each(fmt::format("f{}.yaml", number), number);
    }
  };
  const auto changes = [&] {
    std::size_t sum = 0;
    while (sum < count) {
      sum += watched.changes();
    }
    return sum;
  };
  all([&](const std::string& file, std::size_t number) {
    manifests.write(file, service_yaml(fmt::format("s{}", number),
                                       fmt::format("10.1.{}.{}", number / 250, number % 250 + 1)));
  });
  CHECK(changes() == count);
  CHECK(watched.most <= 501);
  all([&](const std::string& file, std::size_t) { fs::remove(manifests.path / file); });
  CHECK(changes() == count);
  CHECK(watched.most <= 501);
}

TEST_CASE("REL-136 of the complaints about one file a hundred are named") {
  RecordingSink sink;
  ManifestSet set(sink);
  const auto bad = [](int services) {
    std::string text;
    for (int number = 0; number < services; ++number) {
      text += fmt::format(
          R"({{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s{}"}},"spec":{{"ports":[{{"port":99999}}]}}}})",
          number);
      text += "\n";
    }
    return text;
  };
  const ManifestSet::TimePoint now;
  set.put("bad.json", bad(2'000), now);
  set.apply(now);
  set.complaints().report_all(sink);
  const auto complaints = sink.take_complaints();
  REQUIRE(complaints.size() == 101);
  CHECK(complaints.back().find("more complaints about this file") != std::string::npos);
  set.put("bad.json", bad(100), now);
  set.apply(now);
  set.complaints().report_all(sink);
  CHECK(sink.take_complaints().empty());
}
