// Devices that lead to backends whose replies no program of ours sees, and the text that reports them: when
// such a backend is chosen for a client outside, the client's address is kept, and its replies are never
// translated back. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/netlink/route_lookup.hpp"
#include "agent/netlink/uplinks.hpp"

namespace lb::agent {

/// A device, or what of an uplink's traffic no program of ours sends.
struct UnservedDevice {
  std::string label;          ///< "eth1", "eth0 (encap)"
  bool encapsulates = false;  ///< an uplink, by routes that add headers of their own
};

class UnservedDevices {
 public:
  /// `uplinks` by name, as they serve; `pods` by interface index. Where there is no uplink, or an uplink has
  /// routes of its own (VRF), which are not asked, no device is one.
  UnservedDevices(const NodeLinks& links, const std::vector<std::string>& uplinks,
                  const std::set<std::uint32_t>& pods);

  /// The device, if a route by it leads to where no program of ours is. Not where it leads to a
  /// pod of this node: those answer by the stack, and so by an uplink. A route that adds headers of its own
  /// is the stack's alone, by whatever device it leads.
  [[nodiscard]] std::optional<UnservedDevice> at(const NextHop& hop) const;

 private:
  std::map<std::uint32_t, std::string> unserved_;
  std::map<std::uint32_t, std::string> uplinks_;  ///< those that serve
  std::set<std::uint32_t> guests_;  ///< those of them that lead to this node's pods, if not by a gateway
};

/// Backends that are reached by one device.
struct UnservedBackends {
  std::size_t count = 0;
  std::string example;        ///< "default/web (10.244.2.10)"
  bool encapsulates = false;  ///< as UnservedDevice has it
  bool operator==(const UnservedBackends&) const = default;
};
using UnservedByDevice = std::map<std::string, UnservedBackends>;  ///< by label

/// "unserved devices: eth1 (3 backends)", for `status`; names no more than fit.
[[nodiscard]] std::string unserved_text(const UnservedByDevice& found);

struct Sentence {
  enum class Level : std::uint8_t { info, warning };
  Level level = Level::warning;
  std::string text;
};

/// What the log shall say: when routes begin to lead to backends by a device, and when that ends; whatever
/// the routes do, once a minute of each device.
class UnservedReport {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes pause{1};

  /// To be called for each look, also where nothing has changed: what was held back is said then.
  [[nodiscard]] std::vector<Sentence> sentences(const UnservedByDevice& found, Moment now);

 private:
  struct Said {
    bool is_unserved = false;
    Moment at;  ///< of the warning
  };
  std::map<std::string, Said> said_;
};

}  // namespace lb::agent
