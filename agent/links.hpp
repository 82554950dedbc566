// Links of the kernel, pinned one file each, so that programs stay attached while no agent runs. An existing
// link is updated in place, an unchanged one is not touched, one whose target vanished is made anew.
#pragma once

#include <linux/bpf.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <set>
#include <string>

namespace lb::agent {

/// What became of one hook.
enum class HookState : std::uint8_t {
  kept,      ///< nothing was done: the same program runs there already
  updated,   ///< the program was replaced in place
  attached,  ///< attached now
  declined,  ///< not used here, and something else serves: see the report's text
  failed,
};

/// Where a link shall hold which program.
struct LinkRequest {
  std::string pin;   ///< file name below the directory
  int program = -1;  ///< file descriptor
  bpf_attach_type type = BPF_CGROUP_INET4_CONNECT;
  int target = 0;               ///< interface index, or file descriptor of a cgroup
  std::uint64_t target_id = 0;  ///< interface index, or the cgroup's id
  std::uint32_t flags = 0;      ///< of the attach type: XDP's mode, TCX's place
};

class Links {
 public:
  explicit Links(std::string directory) : directory_(std::move(directory)) {}

  /// Makes the link be as asked. Errors are errno values of the attach call.
  [[nodiscard]] boost::system::result<HookState> ensure(const LinkRequest& request) const;
  /// Detaches: unpins the link, whose last holder the pin is. Nothing there is fine.
  void remove(const std::string& pin) const;
  /// Removes every link whose name is not among `wanted`.
  void prune(const std::set<std::string>& wanted) const;

 private:
  [[nodiscard]] std::string path(const std::string& pin) const { return directory_ + "/" + pin; }
  [[nodiscard]] boost::system::result<HookState> create(const LinkRequest& request) const;

  std::string directory_;
};

}  // namespace lb::agent
