// SPDX-License-Identifier: Apache-2.0
// Pinned BPF links, one file each, so that programs stay attached while no agent runs. An existing link is
// updated in place, an unchanged one is not touched, one whose target was removed is created again.
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

#include "agent/programs/filter_owner.hpp"

namespace lb::agent {

/// The result for one hook.
enum class HookState : std::uint8_t {
  kept,      ///< no change: the same program is attached already
  updated,   ///< the program was replaced in place
  attached,  ///< attached now
  declined,  ///< not used here; the report's text names the fallback
  left_out,  ///< the kernel refuses the program
  failed,
};

/// In place of a program's descriptor: the kernel refuses the program. Only a program that an earlier agent
/// has attached there is kept: every mix of old and new serves (REL-83).
inline constexpr int left_out = -2;

/// The wanted link of a program.
struct LinkRequest {
  std::string pin;   ///< file name below the directory
  int program = -1;  ///< file descriptor, or left_out
  bpf_attach_type type = BPF_CGROUP_INET4_CONNECT;
  int target = 0;               ///< interface index, or file descriptor of a cgroup
  std::uint64_t target_id = 0;  ///< interface index, or the cgroup's id
  std::uint32_t flags = 0;      ///< of the attach type: XDP's mode, TCX's position
};

/// The state of a hook after ensure().
struct AttachResult {
  HookState state = HookState::failed;
  std::uint32_t program = 0;  ///< id of the attached program
};

class Links {
 public:
  /// `directory` is BASE/vLAYOUT/links of this Sluice's pins.
  explicit Links(std::string directory)
      : directory_(std::move(directory)),
        owner_(std::filesystem::path(directory_).parent_path().parent_path()) {}

  /// This Sluice as the owner of clsact filters.
  [[nodiscard]] const FilterOwner& owner() const noexcept { return owner_; }
  /// Creates or updates the link as requested. Errors are errno values of the attach call, or is_pin_error().
  [[nodiscard]] boost::system::result<AttachResult> ensure(const LinkRequest& request);
  /// Whether a link of that name exists and is attached to that target. Three system calls.
  [[nodiscard]] bool holds(const std::string& pin, std::uint64_t target_id) const;
  [[nodiscard]] bool pinned(const std::string& pin) const;
  /// Time of the last change of the directory, in nanoseconds; see directory_changed().
  [[nodiscard]] std::optional<std::int64_t> changed() const;
  /// Detaches: unpins the link, which has no other holder. A missing link is not an error.
  void remove(const std::string& pin) const;
  /// Notes are names without a link that this agent and the next one can read.
  void note(const std::string& name) const;
  [[nodiscard]] bool noted(const std::string& name) const;
  void forget(const std::string& name) const;
  /// All notes that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> notes(const std::string& prefix) const;
  /// Removes all links whose names are not in `wanted`.
  void prune(const std::set<std::string>& wanted) const;

 private:
  [[nodiscard]] std::string path(const std::string& pin) const { return directory_ + "/" + pin; }
  [[nodiscard]] boost::system::result<AttachResult> adopt(int link, const LinkRequest& request);
  [[nodiscard]] boost::system::result<AttachResult> create(const LinkRequest& request) const;
  [[nodiscard]] bool same(std::uint32_t running, int loaded);

  std::string directory_;
  FilterOwner owner_;
  std::map<std::pair<std::uint32_t, int>, bool> compared_;  ///< programs are immutable, and so are results
};

/// Whether the kernel attached the program and only the link could not be pinned, so that it ended at once.
[[nodiscard]] bool is_pin_error(const boost::system::error_code& error) noexcept;

/// Whether that program is attached to this hook. One system call, for cgroups (`target` is a file
/// descriptor) and TCX (an interface index). nullopt if the target no longer exists.
[[nodiscard]] std::optional<bool> runs_at(int target, bpf_attach_type type, std::uint32_t program);

/// The time at which a name was last added to or removed from a directory, in nanoseconds since 1970. nullopt
/// if the directory does not exist, or changed within the current tick of the file system's clock: the next
/// change may have the same time.
[[nodiscard]] std::optional<std::int64_t> directory_changed(const std::string& path);

}  // namespace lb::agent
