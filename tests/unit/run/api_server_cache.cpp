// SPDX-License-Identifier: Apache-2.0
// The API servers' addresses that an agent knows from the previous start.
#include "agent/run/api_server_cache.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "k8s/objects/model.hpp"

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

/// A directory that does not exist yet, inside one that is removed with this object.
class State {
 public:
  State() {
    std::string name = fs::temp_directory_path() / "sluice-state-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    base_ = name;
  }
  ~State() { fs::remove_all(base_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] std::string directory() const { return (base_ / "sluice").string(); }
  [[nodiscard]] std::string text() const {
    std::ifstream file(base_ / "sluice" / "api-servers");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  fs::path base_;
};

k8s::EndpointSlice slice(const char* name, k8s::Family family, const std::vector<const char*>& addresses) {
  k8s::EndpointSlice made;
  made.key = {"default", name};
  made.service = "kubernetes";
  made.family = family;
  made.ports = {{"https", k8s::Protocol::tcp, 6443}, {"metrics", k8s::Protocol::tcp, 9}};
  for (const auto* text : addresses) {
    k8s::Endpoint endpoint;
    endpoint.address = *k8s::Address::parse(text);
    made.endpoints.push_back(endpoint);
  }
  return made;
}

std::vector<std::string> texts(const std::vector<k8s::ApiServer>& servers) {
  std::vector<std::string> list;
  for (const auto& server : servers) {
    list.push_back(server.text() + " as " + server.certificate());
  }
  return list;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the API servers of default/kubernetes are kept for the next start, both families") {
  const State state;
  ApiServerCache memory(state.directory());
  auto ipv4 = slice("kubernetes", k8s::Family::ipv4, {"10.0.0.1", "10.0.0.2", "10.0.0.3"});
  ipv4.endpoints[1].ready = false;
  memory.see(ipv4);
  memory.see(slice("kubernetes-ipv6", k8s::Family::ipv6, {"fd00::1"}));
  auto other = slice("web", k8s::Family::ipv4, {"10.244.1.5"});
  other.service = "web";
  memory.see(other);
  memory.write();
  CHECK(state.text() == "https://10.0.0.1:6443\nhttps://10.0.0.3:6443\nhttps://[fd00::1]:6443\n");
  CHECK(texts(remembered_servers(state.directory(), "10.96.0.1")) ==
        Texts{"https://10.0.0.1:6443 as 10.96.0.1", "https://10.0.0.3:6443 as 10.96.0.1",
              "https://[fd00::1]:6443 as 10.96.0.1"});
  CHECK(texts(remembered_servers(state.directory(), "")).front() ==
        "https://10.0.0.1:6443 as kubernetes.default.svc");
}

TEST_CASE("what is kept follows the slices, and is never replaced by nothing") {
  const State state;
  ApiServerCache memory(state.directory());
  memory.see(slice("kubernetes", k8s::Family::ipv4, {"10.0.0.1"}));
  memory.write();
  memory.see(slice("kubernetes", k8s::Family::ipv4, {"10.0.0.9"}));
  memory.write();
  CHECK(state.text() == "https://10.0.0.9:6443\n");
  memory.forget({"default", "kubernetes"});
  memory.write();
  CHECK(state.text() == "https://10.0.0.9:6443\n");
  memory.see(slice("kubernetes-2", k8s::Family::ipv4, {"10.0.0.7"}));
  memory.write();
  CHECK(state.text() == "https://10.0.0.7:6443\n");
}

TEST_CASE("nothing is kept without a directory, and a damaged file counts as far as it can be read") {
  ApiServerCache nowhere("");
  nowhere.see(slice("kubernetes", k8s::Family::ipv4, {"10.0.0.1"}));
  nowhere.write();
  CHECK(remembered_servers("", "").empty());
  const State state;
  CHECK(remembered_servers(state.directory(), "").empty());
  fs::create_directories(state.directory());
  std::ofstream(fs::path(state.directory()) / "api-servers") << "https://10.0.0.1:6443\nnonsense\n";
  CHECK(remembered_servers(state.directory(), "").size() == 1);
}

}  // namespace lb::agent
