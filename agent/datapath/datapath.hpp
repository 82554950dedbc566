// SPDX-License-Identifier: Apache-2.0
// The kernel side as one object: opens it (creates or adopts maps, loads programs), attaches it, and can
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
#include "agent/datapath/lock.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/acceptance.hpp"
#include "agent/programs/features.hpp"
#include "agent/tables/node_page.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// The result of restore().
struct Restored {
  std::vector<HookId> hooks;
  std::size_t maps = 0;  ///< number of maps pinned again
  std::string failure;   ///< why the first of the missing ones could not be restored; empty: none

  [[nodiscard]] bool nothing() const { return hooks.empty() && maps == 0; }
};

class Datapath {
 public:
  /// Checks its prerequisites (privileges, kernel, memory, cgroup, devices) before it changes anything; then
  /// creates or adopts the pinned maps and loads the programs with the options' configuration. Throws
  /// StartError. Attaches nothing. `lock` is the caller's, which prevents two agents on the same pins:
  /// restore() takes it again if the pin directory was removed. Without one, nobody else may use the pins.
  [[nodiscard]] static Datapath open(const AgentOptions& options, PinLock* lock = nullptr);

  Datapath(Datapath&&) noexcept;
  Datapath& operator=(Datapath&&) noexcept;
  ~Datapath();

  /// Attaches the hooks as the options say and writes the result to the node page. Can be called again at any
  /// time: an unchanged hook is not touched, a detached one is reattached, a new device gets its hooks.
  AttachReport attach();

  /// Sets the names of the uplinks for attach(); initially those that the options name.
  void set_uplinks(std::vector<std::string> names);
  /// Sets the ports by which bonds among the uplinks receive frames.
  void set_ports(std::vector<Port> ports);
  /// Sets the devices that attach() treats as pods' devices.
  void set_pods(std::vector<Device> pods);
  /// Restores hooks and maps that others have detached or unpinned; returns them. Costs one system call a
  /// hook if nothing is lost, so it can be called often.
  [[nodiscard]] Restored restore(FilterChanges filters);

  /// Likewise for socket hooks that are attached but do not run, as the socket probe detects (REL-70).
  [[nodiscard]] Restored reattach_idle_hooks();

  /// Keeps the memory of sockets' storage within its limit.
  void limit_socket_storage();

  /// The iterators that close connected UDP sockets when their backend ends; the descriptors live as long as
  /// this.
  [[nodiscard]] UdpCleanup udp_cleanup() const noexcept;

  /// Sets the missing capabilities besides kernel features, in the same form ("CAP_…: …"), for the node page;
  /// empty: none.
  void set_limitations(std::string lacks);

  /// Why tables of these sizes cannot be created beside the existing ones; nullopt: they can.
  [[nodiscard]] std::optional<std::string> memory_shortage(const Sizes& sizes) const;

  /// Frames that XDP redirected and devices dropped, by device, at the last restore().
  [[nodiscard]] const std::map<std::string, std::uint64_t>& frames_lost() const noexcept;

  /// Messages about features that the last attach() did not use, by device, with reasons; also in the node
  /// page.
  [[nodiscard]] const std::vector<std::string>& declined() const noexcept;

  [[nodiscard]] NodePage& page() noexcept;
  /// The features that the loaded programs use.
  [[nodiscard]] const Features& features() const noexcept;
  /// The programs that the kernel refuses, and what is done without each.
  [[nodiscard]] const std::vector<ProgramRefusal>& refusals() const noexcept;
  /// Messages to log once: sizes kept from pinned maps, missing devices.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept;

 private:
  struct State;
  explicit Datapath(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace lb::agent
