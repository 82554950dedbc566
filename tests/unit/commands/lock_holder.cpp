// SPDX-License-Identifier: Apache-2.0
// Who holds the lock of a pin directory, asked of the kernel: another process's locks do not matter
// (REL-132).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "agent/datapath/lock.hpp"

namespace lb::agent {
namespace {

/// Which locks the other process takes on the directory.
enum class Locks : std::uint8_t { none, flock_alone, both, shared };

/// A process that holds locks on a directory until it is destroyed.
class Holder {
 public:
  Holder(const std::string& directory, Locks locks) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    child_ = ::fork();
    if (child_ == 0) {
      take(directory, locks);
      static_cast<void>(!::write(ready[1], "x", 1));
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return child_; }

 private:
  static void take(const std::string& directory, Locks locks) {
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
    if (locks != Locks::none) {
      ::flock(fd, locks == Locks::shared ? LOCK_SH : LOCK_EX);
    }
    struct flock range{};
    range.l_type = F_RDLCK;
    if (locks == Locks::both) {
      ::fcntl(fd, F_SETLK, &range);
    }
  }

  pid_t child_ = -1;
};

AgentPresence found(Locks locks) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("sluice-lock-{}", ::getpid());
  std::filesystem::create_directory(directory);
  const Holder holder(directory.string(), locks);
  auto presence = find_agent(maps::Pins(directory));
  if (presence.pid) {
    presence.pid = *presence.pid == holder.pid() ? 1 : 2;
  }
  std::filesystem::remove(directory);
  return presence;
}

}  // namespace

TEST_CASE("REL-132 an agent runs if its lock is held, and the kernel knows its pid") {
  CHECK(found(Locks::none).state == AgentState::absent);
  CHECK(found(Locks::shared).state == AgentState::absent);  // of another `status`
  const auto whole = found(Locks::both);
  CHECK(whole.state == AgentState::running);
  CHECK(whole.pid == 1);
  const auto old = found(Locks::flock_alone);  // an agent of an earlier version
  CHECK(old.state == AgentState::running);
  CHECK_FALSE(old.pid.has_value());
}

}  // namespace lb::agent
