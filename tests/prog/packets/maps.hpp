// SPDX-License-Identifier: Apache-2.0
// Helpers that change whole maps and parse the words of tables; for World's two files.
#pragma once

#include <cerrno>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/prog/lib/harness.hpp"

namespace lb::test {

template <class T>
using Names = std::map<std::string, T>;

template <class T>
T named(const Names<T>& names, const std::string& name) {
  const auto found = names.find(name);
  if (found == names.end()) {
    throw std::runtime_error("no such word in a table: " + name);
  }
  return found->second;
}

inline void must(const maps::error_code& error) {
  if (error) {
    throw std::runtime_error("a map refused: " + error.message());
  }
}

/// With PREEMPT_RT the kernel gets memory for entries in a thread, which may be late: ENOMEM is tried again.
template <class Key, class Value>
maps::error_code put(maps::HashMap<Key, Value>& map, const std::type_identity_t<Key>& key,
                     const std::type_identity_t<Value>& value, maps::Put mode) {
  constexpr int most_tries = 1000;
  auto error = map.put(key, value, mode);
  for (int tries = 1; error.value() == ENOMEM && tries < most_tries; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    error = map.put(key, value, mode);
  }
  return error;
}

template <class Key, class Value, class Change>
void change_all(maps::HashMap<Key, Value>& map, Change change) {
  std::vector<std::pair<Key, Value>> entries;
  must(map.for_each([&](const Key& key, const Value& value) { entries.emplace_back(key, value); }));
  for (auto& [key, value] : entries) {
    change(value);
    must(put(map, key, value, maps::Put::replace));
  }
}

template <class Key, class Value, class Condition>
void erase_if(maps::HashMap<Key, Value>& map, Condition condition) {
  std::vector<Key> keys;
  must(map.for_each([&](const Key& key, const Value& value) {
    if (condition(value)) {
      keys.push_back(key);
    }
  }));
  for (const auto& key : keys) {
    must(map.erase(key));
  }
}

template <class Key, class Value>
std::size_t count(const maps::HashMap<Key, Value>& map) {
  std::size_t entries = 0;
  must(map.for_each([&](const Key&, const Value&) { ++entries; }));
  return entries;
}

template <class Action>
void each_flow_map(Programs& programs, Action action) {
  action(programs.flows4);
  action(programs.flows6);
  action(programs.unassured4);
  action(programs.unassured6);
}

}  // namespace lb::test
