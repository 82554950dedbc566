// SPDX-License-Identifier: Apache-2.0
// An API server and its network for the simulation: objects with versions and a history, and connections that
// reply in pieces, with old data, wrongly, or not at all, at random.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "k8s/watch/api_source.hpp"

namespace lb::simulation {

/// Random numbers from a seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// A number from 0 to sides - 1.
  unsigned roll(unsigned sides) { return static_cast<unsigned>(random_() % sides); }
  /// True once in `times`.
  bool once_in(unsigned times) { return roll(times) == 0; }

 private:
  std::mt19937_64 random_;
};

/// All objects in the state after one change.
struct Objects {
  struct Item {
    std::uint64_t version = 0;
    std::string json;   ///< contains that version
    bool shown = true;  ///< whether the agent's selectors match it
  };
  std::uint64_t version = 1;
  std::map<std::pair<k8s::Kind, std::string>, Item> items;
};

class Connection;

class Server {
 public:
  /// The agent's own Node, "n", always exists: after its deletion the agent would keep its last state
  /// (SEM-73).
  explicit Server(Dice& dice) : dice_(dice), has_cidrs_(!dice.once_in(4)) { change_own_node(); }

  /// Adds, changes or removes some object.
  void change_something();
  /// Forgets history, so that no watch can start before some recent version.
  void compact();
  /// Restores the store to an earlier state, with its versions, for good (REL-76): afterwards nothing changes
  /// any more. (If versions overtook what an agent has seen while it is disconnected, no client could notice
  /// that.)
  void restore();
  void set_up(bool up) { up_ = up; }
  /// Turns all kinds of faulty replies on or off.
  void set_faults(bool faults) { faults_ = faults; }

  [[nodiscard]] std::unique_ptr<k8s::ApiConnection> connection();
  /// Makes something happen on one connection.
  void advance_some_connection();
  /// Delivers all data that is under way.
  void deliver_all();
  [[nodiscard]] const Objects& now() const { return objects_; }

 private:
  friend class Connection;
  struct Event {
    std::uint64_t version = 0;
    k8s::Kind kind = k8s::Kind::other;
    std::string name;
    const char* type = "";
    std::string json;
  };

  void put(k8s::Kind kind, const std::string& name, bool shown,
           const std::function<std::string(std::uint64_t)>& json);
  void erase(k8s::Kind kind, const std::string& name);
  void note(k8s::Kind kind, const std::string& name, const Objects::Item* before, const Objects::Item* after,
            const std::string& gone);
  void change_service();
  void change_slice();
  void change_own_node();
  void change_peer();
  void change_service_cidr();

  Dice& dice_;
  bool has_cidrs_;  ///< older servers have no ServiceCIDRs
  Objects objects_;
  std::vector<Objects> past_;  ///< some earlier states
  std::vector<Event> history_;
  std::uint64_t compacted_ = 0;
  bool frozen_ = false;
  bool up_ = true;
  bool faults_ = true;
  std::vector<Connection*> connections_;
};

}  // namespace lb::simulation
