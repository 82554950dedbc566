// SPDX-License-Identifier: Apache-2.0
// The network and the services of the packet tests: fixtures/world.txt set up in a namespace and in the maps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/prog/lib/harness.hpp"

namespace lb::test {

using Words = std::vector<std::string>;
/// The words of a line; empty for a comment.
[[nodiscard]] Words words_of(std::string_view line);
/// The address as 16 bytes, IPv4 as ::ffff:a.b.c.d; throws on malformed text.
[[nodiscard]] std::array<std::uint8_t, 16> address_of(const std::string& text);
/// Optional features of the kernel and the programs switched off in random tests, and which share of the
/// packets runs with each set.
struct FeatureSet {
  const char* without;
  void (*take)(Settings&);
  int share;
};
extern const std::vector<FeatureSet> feature_sets;
/// The link address of a neighbour in world.txt; throws if there is none.
[[nodiscard]] std::array<std::uint8_t, 6> neighbour_mac(const std::array<std::uint8_t, 16>& address);
/// The directory of the tables, which the build generates.
[[nodiscard]] std::string fixtures();

class World {
 public:
  explicit World(const Settings& settings);

  [[nodiscard]] Programs& programs() noexcept { return programs_; }
  [[nodiscard]] std::uint32_t device(const std::string& name) const { return devices_.at(name); }
  [[nodiscard]] std::uint32_t service(const std::string& name) const { return services_.at(name); }
  [[nodiscard]] std::uint32_t backend(const std::string& name) const { return backends_.at(name); }

  /// Runs a line of the tables: a `do` command of fixtures/generate.py's list, or a line of world.txt about
  /// services.
  void change(const Words& words);
  /// Removes all flows, and restores world.txt's services and frontends.
  void reset();
  /// The number of entries in lb_flows and in lb_unassured, of both families.
  [[nodiscard]] std::pair<std::size_t, std::size_t> entries() const;

 private:
  using Step = void (World::*)(const Words&);
  void build_network(const std::vector<Words>& lines);
  void fill_devices();

  void add_address(const Words& words);
  void add_policy(const Words& words);
  void add_backend(const Words& words);
  void add_frontend(const Words& words);
  void remove_frontends(const Words& words);
  void set_slots(const Words& words);
  void set_source(const Words& words);
  void set_node_policy(const Words& words);
  void lose_tables(const Words& words);
  void set_heartbeat(const Words& words);
  void set_selection(const Words& words);
  void set_internal(const Words& words);
  void set_external(const Words& words);
  void add_cluster_address(const Words& words);
  void add_address_of(const std::array<std::uint8_t, 16>& bytes, lb_address_kind kind, maps::Put mode);
  void add_list(const Words& words);
  void reserve(const Words& words);
  void unreserve(const Words& words);
  void keep_port(std::uint16_t port);
  void retire(const Words& words);
  void age(const Words& words);
  void evict(const Words& words);
  void corrupt(const Words& words);
  void age_memory(const Words& words);
  void set_affinity(const Words& words);
  void put_range(std::uint32_t number, const std::string& prefix);
  void add_range(const Words& words);
  void forget(const Words& words);
  void expire(const Words& words);
  void hold(const Words& words);
  void track(const Words& words);
  void stop_tracking();
  void check_states(const Words& words);
  void check_midstream(const Words& words);
  void sleep(const Words& words);
  void clear_flows();
  void forget_early();

  NetNamespace network_;
  Programs programs_;
  std::vector<Words> lines_;  ///< world.txt's lines about services
  std::vector<Words> device_lines_;
  std::map<std::string, std::uint32_t> devices_;
  std::map<std::string, std::uint32_t> services_;
  std::map<std::string, std::uint32_t> backends_;
  std::uint32_t next_slot_ = 0;
  std::vector<maps::Fd> sockets_;
  bool tracking_ = false;  ///< whether conntrack is on in this network namespace
};

}  // namespace lb::test
