// SPDX-License-Identifier: Apache-2.0
// REL-133: files that every user may write are named at the start and by `check`.
#include "agent/run/writable_paths.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

namespace lb::agent {
namespace {

namespace fs = std::filesystem;

/// A directory "around" with the directory "around/given" and the file "around/given/file".
struct Tree {
  fs::path root = fs::temp_directory_path() / fmt::format("sluice-writable-{}", ::getpid());
  fs::path given = root / "around" / "given";
  fs::path file = given / "a.yaml";

  Tree() {
    fs::create_directories(given);
    std::ofstream(file) << "x";
    set(root / "around", 0755), set(given, 0755), set(file, 0644);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() { fs::remove_all(root); }
  static void set(const fs::path& path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }
};

}  // namespace

TEST_CASE("REL-133 manifests, state and secret that every user may write") {
  struct Row {
    const char* what;
    std::function<void(const Tree&)> change;
    fs::path weak;  ///< below the root; empty: no warning
  };
  const std::vector<Row> rows = {
      {"as they should be", [](const Tree&) {}, {}},
      {"the directory", [](const Tree& tree) { Tree::set(tree.given, 0777); }, "around/given"},
      {"a sticky one: files can be added", [](const Tree& tree) { Tree::set(tree.given, 01777); },
       "around/given"},
      {"a file", [](const Tree& tree) { Tree::set(tree.file, 0666); }, "around/given/a.yaml"},
      {"the directory around", [](const Tree& tree) { Tree::set(tree.root / "around", 0777); }, "around"},
      {"a sticky one around", [](const Tree& tree) { Tree::set(tree.root / "around", 01777); }, {}},
      {"a directory two above", [](const Tree& tree) { Tree::set(tree.root, 0777); }, "."},
      {"what a link leads to",
       [](const Tree& tree) {
         fs::create_directories(tree.root / "open" / "deep");
         std::ofstream(tree.root / "open" / "deep" / "b.yaml") << "x";
         Tree::set(tree.root / "open", 0777);
         fs::create_symlink(tree.root / "open" / "deep" / "b.yaml", tree.given / "b.yaml");
       },
       "open"},
      {"one that does not exist", [](const Tree& tree) { fs::remove_all(tree.given); }, {}}};
  for (const auto& [what, change, weak] : rows) {
    INFO(what);
    const Tree tree;
    change(tree);
    AgentOptions options;
    options.manifests = tree.given.string();
    const auto found = writable_by_all(options);
    REQUIRE(found.size() == (weak.empty() ? 0U : 1U));
    if (!weak.empty()) {
      CHECK(found[0].find("may write to " + (weak == "." ? tree.root : tree.root / weak).string() + ",") !=
            std::string::npos);
    }
  }
  for (const auto* ending : {"/", "/.", "/../given"}) {
    const Tree tree;
    Tree::set(tree.root / "around", 0777);
    AgentOptions options;
    options.manifests = tree.given.string() + ending;
    CHECK(writable_by_all(options).size() == 1);
  }
  const Tree tree;
  Tree::set(tree.file, 0606);
  AgentOptions options;
  options.state = tree.given.string();
  options.cluster_secret = options.kubeconfig = options.config_file.path = tree.file.string();
  CHECK(writable_by_all(options).size() == 4);
}

}  // namespace lb::agent
