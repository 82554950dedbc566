#include "k8s/client/bounded_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

using lb::k8s::read_bounded;

namespace {

class Directory {
 public:
  Directory() { std::filesystem::create_directory(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("bounded-" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("k8s read_bounded: up to its limit, and an errno for everything else") {
  const Directory directory;
  std::ofstream(directory.file("ten")) << "0123456789";
  std::string text = "before";

  CHECK(read_bounded(directory.file("ten"), 9, text) == EFBIG);
  CHECK(read_bounded(directory.file("none"), 9, text) == ENOENT);
  CHECK(read_bounded(directory.file(""), 9, text) == EISDIR);
  CHECK(read_bounded("/dev/zero", 100'000, text) == EFBIG);
  CHECK(text == "before");

  CHECK(read_bounded(directory.file("ten"), 10, text) == 0);
  CHECK(text == "0123456789");
}

TEST_CASE("k8s read_bounded: a FIFO that nobody writes to is empty, and keeps nobody waiting") {
  const Directory directory;
  REQUIRE(::mkfifo(directory.file("fifo").c_str(), 0600) == 0);
  std::string text = "before";
  CHECK(read_bounded(directory.file("fifo"), 10, text) == 0);
  CHECK(text.empty());
}
