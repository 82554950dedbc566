// SPDX-License-Identifier: Apache-2.0
// Conntrack's sysctls as kube-proxy sets them, in the test's own directory.
#include "agent/netlink/conntrack.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "agent/options/families.hpp"

namespace lb::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using namespace lb::agent;

constexpr const char* sysctls = "/proc/sys/net/netfilter/";

/// A copy of the kernel's files, removed with the test.
class Root {
 public:
  Root() : path_(fs::temp_directory_path() / ("sluice-root-" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  void put(const std::string& name, const std::string& content) const {
    const auto file = fs::path(text() + name);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void put_conntrack() const {
    put(sysctls + std::string("nf_conntrack_max"), "65536\n");
    put(sysctls + std::string("nf_conntrack_tcp_timeout_established"), "432000\n");
    put(sysctls + std::string("nf_conntrack_tcp_timeout_close_wait"), "60\n");
    put(sysctls + std::string("nf_conntrack_udp_timeout"), "30\n");
    put(sysctls + std::string("nf_conntrack_udp_timeout_stream"), "120\n");
    put(sysctls + std::string("nf_conntrack_tcp_be_liberal"), "0\n");
    put(sysctls + std::string("nf_conntrack_buckets"), "16384\n");
  }
  [[nodiscard]] std::string get(const std::string& name) const {
    std::ifstream file(text() + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::string sysctl(const std::string& name) const { return get(sysctls + name); }
  [[nodiscard]] std::string text() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string set_below(const Root& root, ConntrackSettings settings, unsigned cpus) {
  settings.directory = root.text() + sysctls;
  return set_conntrack(settings, cpus);
}

TEST_CASE("SEM-55: room for connections, by CPUs") {
  struct Row {
    std::uint32_t per_core, min;
    unsigned cpus;
    std::uint64_t max;
  };
  const Row rows[] = {{32768, 131072, 1, 131072}, {32768, 131072, 4, 131072},
                      {32768, 131072, 8, 262144}, {32768, 131072, 64, 1048576},
                      {0, 131072, 8, 0},          {1000, 0, 3, 3000},
                      {1, 2000000, 1, 1048576},   {4000000000, 0, 1000, 1048576}};
  for (const auto& row : rows) {
    CAPTURE(row.per_core, row.min, row.cpus);
    ConntrackSettings settings;
    settings.max_per_core = row.per_core;
    settings.min = row.min;
    CHECK(conntrack_max(settings, row.cpus) == row.max);
  }
}

TEST_CASE("SEM-55: the defaults are written, and what shall stay stays") {
  const Root root;
  root.put_conntrack();
  CHECK(set_below(root, {}, 8).empty());
  CHECK(root.sysctl("nf_conntrack_max") == "262144\n");
  CHECK(root.sysctl("nf_conntrack_buckets") == "65536\n");
  CHECK(root.sysctl("nf_conntrack_tcp_timeout_established") == "86400\n");
  CHECK(root.sysctl("nf_conntrack_tcp_timeout_close_wait") == "3600\n");
  CHECK(root.sysctl("nf_conntrack_udp_timeout") == "30\n");
  CHECK(root.sysctl("nf_conntrack_udp_timeout_stream") == "120\n");
  CHECK(root.sysctl("nf_conntrack_tcp_be_liberal") == "0\n");
}

TEST_CASE("SEM-95: a maximum larger than asked for, and a larger hash, stay") {
  const Root root;
  root.put_conntrack();
  CHECK(set_below(root, {1000, 0, 0, 0, 0, 0, TcpWindow::as_it_is}, 2).empty());
  CHECK(root.sysctl("nf_conntrack_max") == "65536\n");
  CHECK(root.sysctl("nf_conntrack_buckets") == "16384\n");
}

TEST_CASE("SEM-95: the hash is raised where the maximum is right already") {
  const Root root;
  root.put_conntrack();
  root.put(sysctls + std::string("nf_conntrack_max"), "262144\n");
  CHECK(set_below(root, {}, 8).empty());
  CHECK(root.sysctl("nf_conntrack_buckets") == "65536\n");
}

TEST_CASE("SEM-55: all settings together, or none") {
  const Root root;
  root.put_conntrack();
  CHECK(set_below(root, {100000, 0, 1, 2, 3, 4, TcpWindow::liberal}, 2).empty());
  CHECK(root.sysctl("nf_conntrack_max") == "200000\n");
  CHECK(root.sysctl("nf_conntrack_buckets") == "50000\n");
  CHECK(root.sysctl("nf_conntrack_tcp_timeout_established") == "1\n");
  CHECK(root.sysctl("nf_conntrack_tcp_timeout_close_wait") == "2\n");
  CHECK(root.sysctl("nf_conntrack_udp_timeout") == "3\n");
  CHECK(root.sysctl("nf_conntrack_udp_timeout_stream") == "4\n");
  CHECK(root.sysctl("nf_conntrack_tcp_be_liberal") == "1\n");
  const Root nothing;  // no files, and none is read
  CHECK(set_below(nothing, {0, 131072, 0, 0, 0, 0, TcpWindow::as_it_is}, 8).empty());
}

TEST_CASE("conntrack that is not loaded is one message, which says what to do") {
  const Root nothing;
  const auto problem = set_below(nothing, {}, 8);
  CHECK(problem.find("nf_conntrack is not loaded") == 0);
  CHECK(problem.find("modprobe nf_conntrack") != std::string::npos);
  CHECK(problem.find("nf_conntrack_max") == std::string::npos);  // one message, not one per file
}

TEST_CASE("SEM-55: what is as it shall be is not written") {
  const Root root;
  root.put_conntrack();
  root.put(sysctls + std::string("nf_conntrack_max"), "  262144");  // not in our format
  CHECK(set_below(root, {}, 8).empty());
  CHECK(root.sysctl("nf_conntrack_max") == "  262144");
}

// The file stands for a sysctl that nobody, not even root, can write, as conntrack's are outside of the
// host's network namespace.
TEST_CASE(
    "SEM-55: a setting that cannot be written is named with what it is; a larger maximum is not written") {
  const Root root;
  root.put_conntrack();
  const auto max = root.text() + sysctls + "nf_conntrack_max";
  fs::remove(max);
  fs::create_symlink("/proc/sys/kernel/ngroups_max", max);
  REQUIRE(root.sysctl("nf_conntrack_max") == "65536\n");
  ConntrackSettings settings;
  CHECK_THAT(set_below(root, settings, 8),
             ContainsSubstring("nf_conntrack_max is 65536 and not 262144: Permission denied"));
  settings.min = 0;
  settings.max_per_core = 1000;
  CHECK(set_below(root, settings, 2).empty());
}

TEST_CASE("SEM-55: what cannot be set is one message, and the rest is set") {
  const Root root;
  root.put_conntrack();
  fs::remove(root.text() + sysctls + "nf_conntrack_buckets");
  root.put(sysctls + std::string("nf_conntrack_tcp_timeout_established"), "nonsense");
  const auto problem = set_below(root, {}, 8);
  CHECK_THAT(problem, ContainsSubstring("nf_conntrack_buckets: No such file or directory; "));
  CHECK_THAT(problem, ContainsSubstring("nf_conntrack_tcp_timeout_established: Invalid argument"));
  CHECK(root.sysctl("nf_conntrack_max") == "262144\n");
  CHECK(root.sysctl("nf_conntrack_tcp_timeout_close_wait") == "3600\n");
}

TEST_CASE("SEM-85: IPv6 is off where the kernel has none, or where it is switched off for all devices") {
  const Root root;
  const std::vector both{LB_IPV4, LB_IPV6};
  const std::vector one{LB_IPV4};
  CHECK(host_families(root.text()) == one);
  root.put("/proc/net/if_inet6", "");
  CHECK(host_families(root.text()) == both);
  root.put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n");
  CHECK(host_families(root.text()) == both);
  root.put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1\n");
  CHECK(host_families(root.text()) == one);
}

}  // namespace
}  // namespace lb::test
