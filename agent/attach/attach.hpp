// SPDX-License-Identifier: Apache-2.0
// Attaches the loaded programs to their hooks and keeps them attached, by comparing the wanted hooks with the
// attached ones. attach() can be called again at any time; if nothing has changed it makes no attach call.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/attach/hooks.hpp"
#include "agent/attach/pods.hpp"
#include "agent/programs/links.hpp"

namespace lb::agent {

class Attacher {
 public:
  /// `directory` contains the pinned links.
  explicit Attacher(std::string directory) : links_(std::move(directory)) {}

  /// Attaches missing hooks, replaces outdated programs in place, detaches hooks that are no longer wanted.
  [[nodiscard]] AttachReport attach(const AttachPlan& plan);
  /// Whether everything that attach() wanted is still attached. One system call for most hooks. The next
  /// attach() reattaches the rest. A hook that could not be attached counts as lost.
  [[nodiscard]] bool intact(FilterChanges filters);

  /// Removes the links of the named socket hooks, so that the next attach() makes them again.
  void drop(const std::vector<std::string>& names) const;

  /// Devices that XDP may redirect to, in ascending order.
  [[nodiscard]] std::vector<std::uint32_t> sending() const;
  /// Stops XDP from redirecting to that device: from the next attach() on, tc sends there.
  void stop_sending(std::uint32_t device);

 private:
  enum class CheckMethod : std::uint8_t { query, link, filter };
  /// A hook that intact() checks.
  struct Watched {
    CheckMethod method = CheckMethod::query;
    LinkRequest request;
    TcHook tc;                  ///< only with CheckMethod::filter
    std::uint32_t program = 0;  ///< id of the attached program
  };

  void attach_sockets(const AttachPlan& plan, AttachReport& report);
  void attach_device(const AttachPlan& plan, const Device& device, AttachReport& report);
  void attach_tc(const AttachPlan& plan, const Device& device, AttachReport& report);
  [[nodiscard]] std::string why_no_xdp(const AttachPlan& plan, const Device& device);
  [[nodiscard]] bool put_addresses(const AttachPlan& plan, const Device& device);
  void attach_xdp(const AttachPlan& plan, const Device& device, AttachReport& report);
  [[nodiscard]] boost::system::result<AttachResult> ensure(CheckMethod method, const LinkRequest& request);
  void detach_removed(const AttachPlan& plan, const std::set<std::uint32_t>& indices);
  void sweep(const AttachPlan& plan, const std::set<std::uint32_t>& indices);
  [[nodiscard]] bool runs(const Watched& hook, FilterChanges filters) const;
  [[nodiscard]] bool all_pinned();
  [[nodiscard]] bool declines(std::uint32_t device) const;
  [[nodiscard]] bool sends_as_before() const;

  Links links_;
  FrameAddresses addresses_;  ///< of the uplinks
  PodHooks pods_;
  std::vector<Watched> watched_;           ///< all hooks but those of pods' devices
  bool failed_ = false;                    ///< one of watched_ could not be attached
  std::optional<std::int64_t> pins_seen_;  ///< mtime of the links' directory when all pins were last seen
  bool swept_ = false;                     ///< links of an earlier agent have been checked
  std::set<std::uint32_t> indices_;        ///< uplinks of the last round
  std::set<std::string> before_;           ///< pins of the last round
  std::set<std::string> wanted_;           ///< pins of this round
  std::set<std::uint32_t> with_xdp_;       ///< devices of this round that run XDP and send what it redirects
  bool generic_ = false;                   ///< the options ask for generic XDP
  std::set<std::uint32_t> declining_;   ///< devices that run XDP and report no support for redirects to them
  std::set<std::uint32_t> unsendable_;  ///< devices that drop what XDP redirects to them
  std::map<std::uint32_t, std::string> refused_xdp_;  ///< devices whose driver refused native XDP, and why
};

/// Removes the clsact filters of `owner` from every device of this network namespace except those in
/// `except`.
void remove_clsact_filters(const FilterOwner& owner, const std::set<std::uint32_t>& except);

}  // namespace lb::agent
