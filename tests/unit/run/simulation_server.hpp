// An API server and its network for the simulation: objects with versions and a history, and lines that
// answer in pieces, from the past, wrongly, or not at all, as dice say.
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

/// Dice that a seed fixes.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// 0 to sides - 1.
  unsigned roll(unsigned sides) { return static_cast<unsigned>(random_() % sides); }
  /// True once in `times`.
  bool once_in(unsigned times) { return roll(times) == 0; }

 private:
  std::mt19937_64 random_;
};

/// All objects as they were after one change.
struct Objects {
  struct Item {
    std::uint64_t version = 0;
    std::string json;   ///< with that version in it
    bool shown = true;  ///< the selectors of the agent match it
  };
  std::uint64_t version = 1;
  std::map<std::pair<k8s::Kind, std::string>, Item> items;
};

class Line;

class Server {
 public:
  /// The own Node, "n", is always there: of one that goes the agent keeps the last state (SEM-73).
  explicit Server(Dice& dice) : dice_(dice), has_cidrs_(!dice.once_in(4)) { change_own_node(); }

  /// Some object comes, changes or goes.
  void change_something();
  /// No watch may begin before some recent version any more.
  void compact();
  /// Its store is that of some time ago, and so are its versions, for good (REL-76): nothing changes any
  /// more. (Versions that overtake what an agent has seen, while it sees nothing, are a fork that no client
  /// can notice.)
  void restore();
  void set_up(bool up) { up_ = up; }
  /// Answers go wrong in every way, or in none.
  void set_faults(bool faults) { faults_ = faults; }

  [[nodiscard]] std::unique_ptr<k8s::ApiConnection> line();
  /// One line does something.
  void move_some_line();
  /// Everything that is on its way arrives.
  void deliver_all();
  [[nodiscard]] const Objects& now() const { return objects_; }

 private:
  friend class Line;
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
  bool has_cidrs_;  ///< older ones do not know ServiceCIDRs
  Objects objects_;
  std::vector<Objects> past_;  ///< some of what was
  std::vector<Event> history_;
  std::uint64_t compacted_ = 0;
  bool frozen_ = false;
  bool up_ = true;
  bool faults_ = true;
  std::vector<Line*> lines_;
};

}  // namespace lb::simulation
