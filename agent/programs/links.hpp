// BPF links, pinned one file each, so that programs stay attached while no agent runs. An existing link is
// updated in place, an unchanged one is not touched, one whose target is gone is made again.
#pragma once

#include <linux/bpf.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

/// What stands at a hook after ensure().
struct AttachResult {
  HookState state = HookState::failed;
  std::uint32_t program = 0;  ///< id of the program that runs
};

class Links {
 public:
  explicit Links(std::string directory) : directory_(std::move(directory)) {}

  /// Below which the directory is: BASE of BASE/vLAYOUT/links.
  [[nodiscard]] std::filesystem::path base() const {
    return std::filesystem::path(directory_).parent_path().parent_path();
  }
  /// Makes the link be as asked. Errors are errno values of the attach call.
  [[nodiscard]] boost::system::result<AttachResult> ensure(const LinkRequest& request);
  /// Is there a link of that name which is attached to that target? Three system calls.
  [[nodiscard]] bool holds(const std::string& pin, std::uint64_t target_id) const;
  [[nodiscard]] bool pinned(const std::string& pin) const;
  /// When a name was last added or removed, in nanoseconds of the file system's clock; 0: no such directory.
  [[nodiscard]] std::optional<std::int64_t> changed() const;
  /// Detaches: unpins the link, whose last holder the pin is. Nothing there is fine.
  void remove(const std::string& pin) const;
  /// Names that say something without being a link, for this agent and the next one.
  void note(const std::string& name) const;
  [[nodiscard]] bool noted(const std::string& name) const;
  void forget(const std::string& name) const;
  /// Every note that begins so.
  [[nodiscard]] std::vector<std::string> notes(const std::string& prefix) const;
  /// Removes every link whose name is not among `wanted`.
  void prune(const std::set<std::string>& wanted) const;

 private:
  [[nodiscard]] std::string path(const std::string& pin) const { return directory_ + "/" + pin; }
  [[nodiscard]] boost::system::result<AttachResult> adopt(int link, const LinkRequest& request);
  [[nodiscard]] boost::system::result<AttachResult> create(const LinkRequest& request) const;
  [[nodiscard]] bool same(std::uint32_t running, int loaded);

  std::string directory_;
  std::map<std::pair<std::uint32_t, int>, bool> compared_;  ///< programs never change, so neither do verdicts
};

/// Does that program run at this hook? One system call, for cgroups (`target` is a file descriptor) and TCX
/// (an interface index). A target that is gone holds nothing: nothing is said then.
[[nodiscard]] std::optional<bool> runs_at(int target, bpf_attach_type type, std::uint32_t program);

/// When a name was last added to or removed from a directory, in nanoseconds since 1970. Nothing is said
/// of a directory that is not there, or that changed within the tick of the file system's clock that still
/// runs: the next change may bear the same time.
[[nodiscard]] std::optional<std::int64_t> directory_changed(const std::string& path);

}  // namespace lb::agent
