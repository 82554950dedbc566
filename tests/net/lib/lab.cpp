// SPDX-License-Identifier: Apache-2.0
// Namespaces, cgroups and the janitor process that removes them.
#include "tests/net/lib/lab.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "agent/attach/detach.hpp"
#include "agent/datapath/datapath.hpp"
#include "agent/options/option_text.hpp"

namespace lb::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// A shell command that waits for another one to succeed.
std::string await(const std::string& condition) {
  return fmt::format("timeout 60 sh -c 'until {}; do sleep 0.01; done'", condition);
}

std::string cgroup_mount() {
  std::ifstream mounts("/proc/self/mounts");
  std::string device;
  std::string directory;
  std::string type;
  std::string rest;
  while (mounts >> device >> directory >> type && std::getline(mounts, rest)) {
    if (type == "cgroup2") {
      return directory;
    }
  }
  throw std::runtime_error("no cgroup v2 file system is mounted");
}

std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) {
      return cgroup_mount() + line.substr(3);
    }
  }
  throw std::runtime_error("this process is in no cgroup v2");
}

std::string unique_name() {
  static std::atomic<int> number = 0;
  return fmt::format("lbtest-{}-{}", ::getpid(), number++);
}

// Sockets that were made in a cgroup keep it alive, but it can be removed as soon as no process is in it.
void remove_cgroups(const std::string& first) {
  std::vector<std::filesystem::path> ours;
  const std::filesystem::path path(first);
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    if (entry.path().filename().string().starts_with(path.filename().string())) {
      ours.push_back(entry.path());
    }
  }
  for (const auto& cgroup : ours) {
    for (int tries = 0; tries < 100 && ::rmdir(cgroup.c_str()) != 0 && errno == EBUSY; ++tries) {
      ::usleep(10'000);
    }
  }
}

}  // namespace

void shell(const std::string& command) {
  const int status = std::system(command.c_str());
  if (status != 0) {
    throw std::runtime_error(fmt::format("'{}' ended with {}", command, status));
  }
}

std::string shell_output(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    fail(command);
  }
  std::string words;
  std::array<char, 4096> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    words.append(buffer.data(), size);
  }
  if (const int status = ::pclose(pipe); status != 0) {
    throw std::runtime_error(fmt::format("'{}' ended with {}", command, status));
  }
  return words;
}

std::string await_local_route(const std::string& address) {
  return await(fmt::format("ip -6 route show table local | grep -q \"local {} \"", address));
}

std::string await_carrier(const std::string& device) {
  return await(fmt::format("ip link show {} | grep -q \"state UP\"", device));
}

void allow_descriptors(std::size_t count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit = {std::max<rlim_t>(limit.rlim_cur, count), std::max<rlim_t>(limit.rlim_max, count)};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    fail("cannot raise the limit of descriptors");
  }
}

Namespace Namespace::current() {
  return Namespace(maps::Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)));
}

Namespace Namespace::fresh() {
  const auto before = current();
  if (::unshare(CLONE_NEWNET) != 0) {
    fail("unshare");
  }
  auto made = current();
  shell("ip link set lo up");
  before.enter();
  return made;
}

void Namespace::enter() const {
  if (::setns(fd_.get(), CLONE_NEWNET) != 0) {
    fail("setns");
  }
}

std::string Namespace::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }

Lab::Lab() : home_(own_cgroup()), before_(Namespace::current()) {
  const auto name = unique_name();
  pins_ = "/sys/fs/bpf/" + name;
  cgroup_ = cgroup_mount() + "/" + name;
  start_janitor();
  if (::mkdir(cgroup_.c_str(), 0755) != 0) {
    fail("mkdir " + cgroup_);
  }
  enter_cgroup(cgroup_);
  Namespace::fresh().enter();
}

Lab::~Lab() {
  before_.enter();
  enter_cgroup(home_);
  alive_ = maps::Fd();
  ::waitpid(janitor_, nullptr, 0);
}

// The janitor is forked before anything is made, and is therefore in no cgroup or namespace of the test.
void Lab::start_janitor() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail("pipe");
  }
  janitor_ = ::fork();
  if (janitor_ == 0) {
    ::setsid();
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    ::close(ends[1]);
    char none = 0;
    while (::read(ends[0], &none, 1) < 0 && errno == EINTR) {
    }
    remove_cgroups(cgroup_);
    agent::detach_pins(maps::Pins(pins_));
    ::_exit(0);
  }
  ::close(ends[0]);
  alive_ = maps::Fd(ends[1]);
}

agent::AgentOptions Lab::options() const {
  agent::AgentOptions options;
  options.node = "node-1";
  options.pins = pins_;
  options.cgroup = cgroup_;
  if (const char* without = std::getenv("SLUICE_WITHOUT"); without != nullptr) {
    options.without = agent::split(without);
  }
  options.source_ports = {{1024, 29999}, {61000, 65535}};
  options.sizes = {
      .frontends = 1024, .services = 1024, .backends = 4096, .slots = 8192, .flows = 4096, .unassured = 4096};
  return options;
}

std::string Lab::make_cgroup(const std::string& suffix) const {
  auto path = cgroup_ + "-" + suffix;
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    fail("mkdir " + path);
  }
  return path;
}

void Lab::enter_cgroup(const std::string& path) const {
  std::ofstream file(path + "/cgroup.procs");
  file << ::getpid() << std::flush;
  if (!file) {
    fail("join " + path);
  }
}

}  // namespace lb::test
