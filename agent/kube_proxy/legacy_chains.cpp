// SPDX-License-Identifier: Apache-2.0
// Both families have the same socket option numbers. A table is a sequence of entries (rules) of different
// sizes. A chain is a part of it: its head, which for user-defined chains is an ERROR target with the name;
// its rules; a last one that returns. Jumps have the offset of their chain's first rule, so removing entries
// changes the offsets of all entries after them.
#include "agent/kube_proxy/legacy_chains.hpp"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "agent/base/system_error.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;

constexpr std::array<const char*, NF_INET_NUMHOOKS> hook_names = {"PREROUTING", "INPUT", "FORWARD", "OUTPUT",
                                                                  "POSTROUTING"};

struct Ipv4 {
  using Entry = ipt_entry;
  using Info = ipt_getinfo;
  using Entries = ipt_get_entries;
  using Replace = ipt_replace;
  static constexpr int family = AF_INET;
  static constexpr int level = IPPROTO_IP;
  static constexpr const char* loaded = "/proc/thread-self/net/ip_tables_names";
};

struct Ipv6 {
  using Entry = ip6t_entry;
  using Info = ip6t_getinfo;
  using Entries = ip6t_get_entries;
  using Replace = ip6t_replace;
  static constexpr int family = AF_INET6;
  static constexpr int level = IPPROTO_IPV6;
  static constexpr const char* loaded = "/proc/thread-self/net/ip6_tables_names";
};

bool is_loaded(const char* names, const std::string& table) {
  std::ifstream file(names);
  for (std::string name; file >> name;) {
    if (name == table) {
      return true;
    }
  }
  return false;
}

/// One entry of the table.
struct Rule {
  std::size_t offset = 0;
  std::size_t size = 0;
  std::string chain;
  std::optional<int> verdict;  ///< of a standard target: an offset, or a negative verdict
  std::size_t verdict_at = 0;  ///< offset of the verdict
  xt_counters counters{};
};

template <class Family>
struct Table {
  typename Family::Info info{};
  std::vector<std::byte> bytes;
  std::vector<Rule> rules;
  std::map<std::size_t, std::string> starts;  ///< user-defined chains by the offset of their first rule
  ChainTable chains;
};

/// Zeroes by memset, because types with flexible arrays have no initializer.
template <class T>
T zeroed() {
  T value;
  std::memset(&value, 0, sizeof(value));
  return value;
}

template <class T>
T at(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value{};
  if (offset + sizeof(T) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  }
  return value;
}

template <class Family>
void name_base_chain(Table<Family>& table, std::size_t offset, std::string& chain) {
  for (std::size_t hook = 0; hook < hook_names.size(); ++hook) {
    if ((table.info.valid_hooks & (1U << hook)) != 0 && table.info.hook_entry[hook] == offset) {
      chain = hook_names.at(hook);
      table.chains.base.insert(chain);
      table.chains.chains.push_back(chain);
    }
  }
}

/// False if the table is malformed.
template <class Family>
bool parse(Table<Family>& table) {
  std::string chain;
  for (std::size_t offset = 0; offset < table.bytes.size();) {
    const auto entry = at<typename Family::Entry>(table.bytes, offset);
    if (entry.next_offset < sizeof(entry) || offset + entry.next_offset > table.bytes.size() ||
        entry.target_offset + sizeof(xt_entry_target) > entry.next_offset) {
      return false;
    }
    const auto target_at = offset + entry.target_offset;
    const auto target = at<xt_entry_target>(table.bytes, target_at);
    const std::string name(target.u.user.name, ::strnlen(target.u.user.name, sizeof(target.u.user.name)));
    name_base_chain(table, offset, chain);
    if (name == XT_ERROR_TARGET) {
      const auto error = at<xt_error_target>(table.bytes, target_at);
      chain.assign(error.errorname, ::strnlen(error.errorname, sizeof(error.errorname)));
      table.starts.emplace(offset + entry.next_offset, chain);
      table.chains.chains.push_back(chain);
    }
    Rule rule{offset,
              entry.next_offset,
              chain,
              {},
              target_at + offsetof(xt_standard_target, verdict),
              {entry.counters.pcnt, entry.counters.bcnt}};
    if (name.empty()) {
      rule.verdict = at<xt_standard_target>(table.bytes, target_at).verdict;
    }
    table.rules.push_back(std::move(rule));
    offset += entry.next_offset;
  }
  // The table ends with one more head.
  if (!table.starts.empty() && table.starts.rbegin()->first == table.bytes.size()) {
    table.starts.erase(table.bytes.size());
    table.chains.chains.pop_back();
  }
  return true;
}

template <class Family>
void find_jumps(Table<Family>& table) {
  for (std::size_t number = 0; number < table.rules.size(); ++number) {
    const auto& rule = table.rules[number];
    if (!rule.verdict || *rule.verdict < 0) {
      continue;
    }
    if (const auto found = table.starts.find(static_cast<std::size_t>(*rule.verdict));
        found != table.starts.end()) {
      table.chains.jumps.push_back({rule.chain, number, found->second});
    }
  }
}

template <class Family>
maps::Fd open_socket() {
  return maps::Fd(::socket(Family::family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

/// Reads the table from the kernel, unparsed.
template <class Family>
std::optional<Table<Family>> fetch(int socket, const std::string& name) {
  Table<Family> table;
  if (!is_loaded(Family::loaded, name)) {
    return std::nullopt;
  }
  name.copy(table.info.name, sizeof(table.info.name) - 1);
  socklen_t size = sizeof(table.info);
  if (::getsockopt(socket, Family::level, IPT_SO_GET_INFO, &table.info, &size) != 0) {
    return std::nullopt;
  }
  auto request = zeroed<typename Family::Entries>();
  name.copy(request.name, sizeof(request.name) - 1);
  request.size = table.info.size;
  std::vector<std::byte> answer(sizeof(request) + table.info.size);
  std::memcpy(answer.data(), &request, sizeof(request));
  size = static_cast<socklen_t>(answer.size());
  if (::getsockopt(socket, Family::level, IPT_SO_GET_ENTRIES, answer.data(), &size) != 0) {
    return std::nullopt;
  }
  table.bytes.assign(answer.begin() + sizeof(request), answer.end());
  return table;
}

template <class Family>
std::optional<Table<Family>> read(int socket, const std::string& name) {
  auto table = fetch<Family>(socket, name);
  if (!table || !parse(*table)) {
    return std::nullopt;
  }
  find_jumps(*table);
  return table;
}

template <class Family>
std::vector<std::byte> entries(const std::string& name) {
  const auto socket = open_socket<Family>();
  auto table = fetch<Family>(socket.get(), name);
  return table ? std::move(table->bytes) : std::vector<std::byte>();
}

/// The remaining part of a table, and the new offset of each old one: for removed entries, that of the entry
/// after them.
template <class Family>
struct Rest {
  Rest(const Table<Family>& table, const ChainRemoval& removal) {
    const std::set<std::string> chains(removal.chains.begin(), removal.chains.end());
    std::set<std::uint64_t> gone;
    for (const auto& jump : removal.jumps) {
      gone.insert(jump.rule);
    }
    for (std::size_t number = 0; number < table.rules.size(); ++number) {
      const auto& rule = table.rules[number];
      moved[rule.offset] = bytes.size();
      if (chains.contains(rule.chain) || gone.contains(number)) {
        continue;
      }
      const auto begin = table.bytes.begin() + static_cast<std::ptrdiff_t>(rule.offset);
      bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(rule.size));
      rules.push_back(rule);
    }
    for (const auto& rule : rules) {
      if (rule.verdict && *rule.verdict >= 0) {
        const auto verdict = static_cast<int>(moved.at(static_cast<std::size_t>(*rule.verdict)));
        const auto place = moved.at(rule.offset) + (rule.verdict_at - rule.offset);
        std::memcpy(bytes.data() + place, &verdict, sizeof(verdict));
      }
    }
  }

  std::vector<std::byte> bytes;
  std::vector<Rule> rules;
  std::map<std::size_t, std::size_t> moved;
};

template <class Family>
error_code replace(int socket, const Table<Family>& table, const Rest<Family>& rest) {
  auto request = zeroed<typename Family::Replace>();
  std::vector<xt_counters> counted(table.info.num_entries);
  std::memcpy(request.name, table.info.name, sizeof(request.name));
  request.valid_hooks = table.info.valid_hooks;
  request.num_entries = static_cast<unsigned>(rest.rules.size());
  request.size = static_cast<unsigned>(rest.bytes.size());
  for (std::size_t hook = 0; hook < hook_names.size(); ++hook) {
    if ((table.info.valid_hooks & (1U << hook)) != 0) {
      request.hook_entry[hook] = static_cast<unsigned>(rest.moved.at(table.info.hook_entry[hook]));
      request.underflow[hook] = static_cast<unsigned>(rest.moved.at(table.info.underflow[hook]));
    }
  }
  request.num_counters = table.info.num_entries;
  request.counters = counted.data();
  std::vector<std::byte> message(sizeof(request) + rest.bytes.size());
  std::memcpy(message.data(), &request, sizeof(request));
  std::ranges::copy(rest.bytes, message.begin() + sizeof(request));
  if (::setsockopt(socket, Family::level, IPT_SO_SET_REPLACE, message.data(),
                   static_cast<socklen_t>(message.size())) != 0) {
    return last_error();
  }
  return {};
}

/// Restores counters: a new table begins with zeros.
template <class Family>
void put_counters(int socket, const Table<Family>& table, const Rest<Family>& rest) {
  auto request = zeroed<xt_counters_info>();
  std::memcpy(request.name, table.info.name, sizeof(request.name));
  request.num_counters = static_cast<unsigned>(rest.rules.size());
  std::vector<std::byte> message(sizeof(request) + rest.rules.size() * sizeof(xt_counters));
  std::memcpy(message.data(), &request, sizeof(request));
  auto place = message.begin() + sizeof(request);
  for (const auto& rule : rest.rules) {
    std::memcpy(&*place, &rule.counters, sizeof(rule.counters));
    place += sizeof(rule.counters);
  }
  static_cast<void>(::setsockopt(socket, Family::level, IPT_SO_SET_ADD_COUNTERS, message.data(),
                                 static_cast<socklen_t>(message.size())));
}

template <class Family>
ChainTable read_chains(const std::string& name) {
  const auto socket = open_socket<Family>();
  const auto table = read<Family>(socket.get(), name);
  return table ? table->chains : ChainTable{};
}

template <class Family>
error_code remove_chains(const std::string& name, const ChainRemoval& removal) {
  const auto socket = open_socket<Family>();
  const auto table = read<Family>(socket.get(), name);
  if (!table) {
    return make_error_code(boost::system::errc::no_such_file_or_directory);
  }
  const Rest<Family> rest(*table, removal);
  if (const auto error = replace(socket.get(), *table, rest)) {
    return error;
  }
  put_counters(socket.get(), *table, rest);
  return {};
}

}  // namespace

ChainTable read_legacy_table(int family, const std::string& table) {
  return family == AF_INET ? read_chains<Ipv4>(table) : read_chains<Ipv6>(table);
}

std::vector<std::byte> read_legacy_entries(int family, const std::string& table) {
  return family == AF_INET ? entries<Ipv4>(table) : entries<Ipv6>(table);
}

error_code remove_legacy_chains(int family, const std::string& table, const ChainRemoval& removal) {
  if (removal.chains.empty()) {
    return {};
  }
  return family == AF_INET ? remove_chains<Ipv4>(table, removal) : remove_chains<Ipv6>(table, removal);
}

}  // namespace lb::agent
