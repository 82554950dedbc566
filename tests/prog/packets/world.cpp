// SPDX-License-Identifier: Apache-2.0
// Builds devices, addresses, neighbours and routes by `ip`, and fills the maps through the structs of
// maps/abi/abi.h.
#include "tests/prog/packets/world.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "maps/abi/checks.h"
#include "tests/lib/paths.hpp"
#include "tests/prog/packets/maps.hpp"

namespace lb::test {
namespace {

const Names<lb_device_kind> device_kinds = {{"uplink", LB_UPLINK}, {"pod", LB_POD}};

std::vector<Words> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  std::vector<Words> lines;
  for (std::string line; std::getline(file, line);) {
    if (auto words = words_of(line); !words.empty()) {
      lines.push_back(std::move(words));
    }
  }
  return lines;
}

bool is_network(const std::string& word) {
  return word == "device" || word == "address" || word == "neighbour" || word == "route";
}

std::string device_lines(const Words& words) {
  return fmt::format(
      "link add {0} address {1} mtu {2} type veth peer name {0}p mtu {2}\n"
      "link set {0} up\nlink set {0}p up\n",
      words.at(1), words.at(5), words.at(4));
}

std::string address_line(const Words& words) {
  const auto* detection = words.at(2).find(':') == std::string::npos ? "" : " nodad";
  return fmt::format("address add {} dev {}{}\n", words.at(2), words.at(1), detection);
}

std::string network_line(const Words& words) {
  if (words[0] == "device") {
    return device_lines(words);
  }
  if (words[0] == "address") {
    return address_line(words);
  }
  if (words[0] == "neighbour") {
    return fmt::format("neighbour replace {} lladdr {} dev {} nud permanent\n", words.at(2), words.at(3),
                       words.at(1));
  }
  return fmt::format("route add {}\n", fmt::join(words.begin() + 1, words.end(), " "));
}

}  // namespace

Words words_of(std::string_view line) {
  if (line.starts_with('#')) {
    return {};
  }
  std::istringstream stream{std::string(line)};
  Words words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

const std::vector<FeatureSet> feature_sets = {
    {"nothing", [](Settings&) {}, 2},
    {"skb_sums",
     [](Settings& settings) {
       settings.config.skb_sums = LB_NO;
       settings.config.preemptible = LB_YES;  // packets are the same to it
     },
     4},
    {"fast paths",
     [](Settings& settings) { settings.choices.tc_fastpath = settings.choices.xdp_fastpath = LB_NO; }, 4},
    {"all kernel features",
     [](Settings& settings) {
       auto& config = settings.config;
       config.skb_sums = config.csum_ipv6 = config.ct_lookup = config.fib_source = LB_NO;
     },
     4}};

std::array<std::uint8_t, 6> neighbour_mac(const std::array<std::uint8_t, 16>& address) {
  for (const auto& words : lines_of(fixtures() + "world.txt")) {
    if (words[0] != "neighbour" || address_of(words.at(2)) != address) {
      continue;
    }
    std::array<std::uint8_t, 6> mac{};
    for (std::size_t at = 0; at < mac.size(); ++at) {
      mac[at] = static_cast<std::uint8_t>(std::stoul(words.at(3).substr(3 * at, 2), nullptr, 16));
    }
    return mac;
  }
  throw std::runtime_error("world.txt has no such neighbour");
}

std::array<std::uint8_t, 16> address_of(const std::string& text) {
  std::array<std::uint8_t, 16> bytes{};
  const auto mapped = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  if (::inet_pton(AF_INET6, mapped.c_str(), bytes.data()) != 1) {
    throw std::runtime_error("no address: " + text);
  }
  return bytes;
}

std::string fixtures() { return build_path("tests/prog/fixtures/"); }

World::World(const Settings& settings) : programs_(settings) {
  std::vector<Words> network;
  for (auto& words : lines_of(fixtures() + "world.txt")) {
    if (is_network(words[0])) {
      network.push_back(words);
    }
    if (words[0] == "device") {
      device_lines_.push_back(words);
    } else if (words[0] != "neighbour" && words[0] != "route") {
      lines_.push_back(std::move(words));
    }
  }
  build_network(network);
  fill_devices();
  reset();
}

void World::build_network(const std::vector<Words>& lines) {
  std::string text;
  for (const auto& words : lines) {
    text += network_line(words);
  }
  run_ip(text);
}

void World::fill_devices() {
  for (const auto& words : device_lines_) {
    const auto index = ::if_nametoindex(words.at(1).c_str());
    devices_[words.at(1)] = index;
    must(put(programs_.devices, index,
             {.kind = named(device_kinds, words.at(2)), .pad = {}, .check = lb_device_check(index)},
             maps::Put::any));
    if (words.at(3) == "port") {
      must(maps::raw::put(programs_.map("lb_devmap"), &index, &index, maps::Put::any));
    }
    programs_.set_frame_address(index);
    attach_nothing(index);
  }
}

/// Only the index says where copies of fragments are, so clearing it is enough.
void World::forget_early() {
  const int map = programs_.map("lb_frag_index");
  const auto info = maps::map_info(map);
  if (!info) {
    throw std::runtime_error("there is no lb_frag_index");
  }
  const std::vector<std::uint8_t> nothing(info->value_size);
  const std::uint32_t zero = 0;
  must(maps::raw::put(map, &zero, nothing.data(), maps::Put::any));
}

void World::reset() {
  sockets_.clear();
  stop_tracking();
  clear_flows();
  erase_if(programs_.frontends, [](const lb_frontend&) { return true; });
  erase_if(programs_.addresses, [](const lb_address&) { return true; });
  erase_if(programs_.ranges, [](const lb_range&) { return true; });
  erase_if(programs_.affinity, [](const lb_affinity&) { return true; });
  erase_if(programs_.fragments, [](const lb_fragment&) { return true; });
  forget_early();
  for (const auto& [name, number] : services_) {
    programs_.services.store(number, {});
  }
  for (const auto& [name, id] : backends_) {
    programs_.backends.store(id, {});
  }
  services_.clear();
  backends_.clear();
  next_slot_ = 0;
  programs_.midstream_until() = 0;
  programs_.node.store(0, {});
  for (std::uint32_t word = 0; word < LB_RESERVED_WORDS; ++word) {
    programs_.reserved.store(word, 0);
  }
  for (const auto& [name, index] : devices_) {
    auto device = programs_.devices.get(index);
    if (!device) {
      throw std::runtime_error("lb_devices lost a device");
    }
    device->check = lb_device_check(index);
    must(put(programs_.devices, index, *device, maps::Put::any));
  }
  for (const auto& words : lines_) {
    change(words);
  }
}

void World::clear_flows() {
  each_flow_map(programs_, [](auto& map) { erase_if(map, [](const auto&) { return true; }); });
}

std::pair<std::size_t, std::size_t> World::entries() const {
  return {count(programs_.flows4) + count(programs_.flows6),
          count(programs_.unassured4) + count(programs_.unassured6)};
}

}  // namespace lb::test
