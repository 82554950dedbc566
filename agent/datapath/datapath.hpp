// The kernel side as one object: opens it (maps made or adopted, programs loaded), attaches it, and can
// remove it again. Everything is pinned, so it serves while no agent runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/attach/attach.hpp"
#include "agent/attach/udp_cleanup.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/features.hpp"
#include "agent/tables/node_page.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// What restore() did.
struct Restored {
  std::vector<HookId> hooks;
  std::size_t maps = 0;  ///< that were pinned again
  std::string failure;   ///< why the first of those that did not come back did not; empty: none

  [[nodiscard]] bool nothing() const { return hooks.empty() && maps == 0; }
};

class Datapath {
 public:
  /// Checks what it needs (privileges, kernel, memory, cgroup, devices) before it changes anything; then
  /// makes or adopts the pinned maps and loads the programs with the options' configuration. Throws
  /// StartError. Attaches nothing. The caller keeps two agents from running on the same pins.
  [[nodiscard]] static Datapath open(const AgentOptions& options);

  Datapath(Datapath&&) noexcept;
  Datapath& operator=(Datapath&&) noexcept;
  ~Datapath();

  /// Makes the hooks be as the options say and writes the outcome to the node page. Again at any time: an
  /// unchanged hook is not touched, a lost one comes back, a device that appeared is taken up.
  AttachReport attach();

  /// The uplinks of attach(), by name, from now on; at first those that the options name.
  void set_uplinks(std::vector<std::string> names);
  /// The devices that attach() shall take for pods', from now on.
  void set_pods(std::vector<Device> pods);
  /// Brings back what others have detached or unpinned: which hooks and how many maps it was. Costs one
  /// system call a hook where nothing is lost, so it can be called often.
  [[nodiscard]] Restored restore(Filters filters);

  /// The same for socket hooks that are attached and yet do not run, which a call of our own finds out
  /// (REL-70).
  [[nodiscard]] Restored reattach_idle_hooks();

  /// How connected UDP sockets are closed at their backend's end; the descriptors live as long as this.
  [[nodiscard]] UdpCleanup udp_cleanup() const noexcept;

  /// What else than the kernel's features is missing, in words as theirs ("CAP_…: …"), for the node page;
  /// empty: nothing.
  void set_limitations(std::string lacks);

  /// Why tables of these sizes cannot be made beside those that there are; nothing: they can.
  [[nodiscard]] std::optional<std::string> memory_shortage(const Sizes& sizes) const;

  /// Frames that devices have lost after XDP gave them to them, by device, as restore() last saw it.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& frames_lost() const noexcept;

  /// What the last attach() left unused at which device, and why: sentences, which the node page has too.
  [[nodiscard]] const std::vector<std::string>& declined() const noexcept;

  [[nodiscard]] NodePage& page() noexcept;
  [[nodiscard]] const Features& features() const noexcept;
  /// What an operator should see once, in sentences: sizes that pinned maps kept, devices that are
  /// absent.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept;

 private:
  struct State;
  explicit Datapath(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace lb::agent
