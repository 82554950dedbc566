// Attaches the loaded programs to their hooks and keeps them attached, by comparing the wanted hooks with the
// attached ones. attach() can be called again at any time; where nothing has changed it makes no attach call.
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
  /// `directory` holds the pinned links.
  explicit Attacher(std::string directory) : links_(std::move(directory)) {}

  /// Attaches what is missing, replaces in place what is old, detaches what is no longer wanted.
  [[nodiscard]] AttachReport attach(const AttachPlan& plan);
  /// Is all that attach() wanted still there? One system call for most hooks. What is not comes back by the
  /// next attach(). A hook that failed counts as lost.
  [[nodiscard]] bool intact(Filters filters);

  /// Lets go of socket hooks, by their names, for the next attach() to make anew.
  void drop(const std::vector<std::string>& names) const;

  /// Devices that XDP may send by, in ascending order.
  [[nodiscard]] std::vector<std::uint32_t> sending() const;
  /// XDP sends nothing by that device any more: from the next attach() tc does.
  void stop_sending(std::uint32_t device);

 private:
  enum class Look : std::uint8_t { query, link, filter };
  /// A hook to look after.
  struct Watched {
    Look look = Look::query;
    LinkRequest request;
    TcHook tc;                  ///< only with Look::filter
    std::uint32_t program = 0;  ///< id of the one that runs
  };

  void attach_sockets(const AttachPlan& plan, AttachReport& report);
  void attach_device(const AttachPlan& plan, const Device& device, AttachReport& report);
  void attach_tc(const AttachPlan& plan, const Device& device, AttachReport& report);
  [[nodiscard]] std::string why_no_xdp(const AttachPlan& plan, const Device& device);
  void attach_xdp(const AttachPlan& plan, const Device& device, AttachReport& report);
  [[nodiscard]] boost::system::result<AttachResult> ensure(Look look, const LinkRequest& request);
  void detach_removed(const AttachPlan& plan, const std::set<std::uint32_t>& indices);
  void sweep(const AttachPlan& plan, const std::set<std::uint32_t>& indices);
  [[nodiscard]] bool runs(const Watched& hook, Filters filters) const;
  [[nodiscard]] bool all_pinned();
  [[nodiscard]] bool declines(std::uint32_t device) const;
  [[nodiscard]] bool sends_as_before() const;

  Links links_;
  FrameAddresses addresses_;  ///< of the uplinks
  PodHooks pods_;
  std::vector<Watched> watched_;           ///< all but pods'
  bool failed_ = false;                    ///< one of them could not be attached
  std::optional<std::int64_t> pins_seen_;  ///< the links' directory, when all were last seen to be pinned
  bool swept_ = false;                     ///< what an earlier agent left has been looked at
  std::set<std::uint32_t> indices_;        ///< uplinks of the last round
  std::set<std::string> before_;           ///< pins of the last round
  std::set<std::string> wanted_;           ///< pins of this round
  std::set<std::uint32_t> with_xdp_;       ///< devices of this round that run XDP and send what it gives them
  bool generic_ = false;                   ///< XDP is asked to run in the stack
  std::set<std::uint32_t> declining_;      ///< those that run it and say that they take none of its frames
  std::set<std::uint32_t> unsendable_;     ///< devices that lose what XDP sends by them
  std::map<std::uint32_t, std::string> refused_xdp_;  ///< devices whose driver refused native XDP, and why
};

/// Takes our clsact filters from every device of this network namespace but those named.
void remove_clsact_filters(const std::set<std::uint32_t>& except);

}  // namespace lb::agent
