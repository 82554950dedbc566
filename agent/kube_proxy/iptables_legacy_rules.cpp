// SPDX-License-Identifier: Apache-2.0
// Parses the sequence of entries: each has its addresses, then its matches, then its target. An ERROR target
// begins a chain and names it; a standard target jumps to the first rule of a chain, by its offset.
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "agent/kube_proxy/iptables_rules.hpp"

namespace lb::agent {
namespace {

using netlink::Bytes;

/// The common fields of both families' entries.
struct Head {
  std::size_t matches = 0;  ///< offset of the first match
  std::size_t target = 0;   ///< offset of the target
  std::size_t next = 0;     ///< size of the entry
};

/// netlink::read() cannot return types that end in flexible arrays. False if there are too few bytes.
template <class T>
bool read_into(T& value, Bytes bytes) {
  if (bytes.size() < sizeof(T)) {
    return false;
  }
  std::memcpy(&value, bytes.data(), sizeof(T));
  return true;
}

template <class Ip>
bool is_zero(const Ip& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0}; });
}

template <class Ip>
bool is_whole(const Ip& mask) {
  const auto bytes = std::as_bytes(std::span(&mask, 1));
  return std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0xff}; });
}

/// Both families' flags of what is inverted have the same values, but for IPv6's protocol.
static_assert(IPT_INV_SRCIP == IP6T_INV_SRCIP && IPT_INV_DSTIP == IP6T_INV_DSTIP &&
              IPT_INV_VIA_IN == IP6T_INV_VIA_IN);

template <class Ip>
void take_addresses(IptablesRule& rule, const Ip& ip) {
  using Destination = IptablesRule::Destination;
  if (!is_zero(ip.smsk) || ip.iniface[0] != 0) {
    rule.clients = RuleClients::inside;
  }
  if ((ip.invflags & (IPT_INV_SRCIP | IPT_INV_VIA_IN)) != 0) {
    rule.not_understood("clients that are excluded");
  }
  if ((ip.invflags & ~(IPT_INV_SRCIP | IPT_INV_DSTIP | IPT_INV_VIA_IN)) != 0) {
    rule.not_understood("a protocol that is excluded");
  }
  if (ip.outiface[0] != 0) {
    rule.not_understood("an output device");
  }
  if (is_zero(ip.dmsk)) {
    return;
  }
  const auto address = address_of(&ip.dst, sizeof(ip.dst));
  const bool one = address && is_whole(ip.dmsk) && (ip.invflags & IPT_INV_DSTIP) == 0;
  rule.match = one ? Destination::address : Destination::range;
  if (address) {
    rule.destination = *address;
  }
}

template <class Entry>
Head head_of(const Entry& entry) {
  return {sizeof(Entry), entry.target_offset, entry.next_offset};
}

std::optional<Head> take_head(IptablesRule& rule, Bytes bytes, int family) {
  if (family == AF_INET) {
    ipt_entry entry;
    if (!read_into(entry, bytes)) {
      return std::nullopt;
    }
    take_addresses(rule, entry.ip);
    rule.protocol = static_cast<lb_protocol>(entry.ip.proto);
    return head_of(entry);
  }
  ip6t_entry entry;
  if (!read_into(entry, bytes)) {
    return std::nullopt;
  }
  take_addresses(rule, entry.ipv6);
  rule.protocol = static_cast<lb_protocol>(entry.ipv6.proto);
  return head_of(entry);
}

bool is_valid(const Head& head, Bytes bytes) {
  return head.matches <= head.target && head.target + sizeof(xt_entry_target) <= head.next &&
         head.next <= bytes.size();
}

std::string name_of(const char (&name)[XT_EXTENSION_MAXNAMELEN]) {
  return {name, ::strnlen(name, sizeof(name))};
}

void take_matches(IptablesRule& rule, Bytes bytes) {
  xt_entry_match match;
  while (read_into(match, bytes)) {
    const std::size_t size = match.u.match_size;
    if (size < sizeof(xt_entry_match) || size > bytes.size()) {
      return;
    }
    take_match(rule, {name_of(match.u.user.name), match.u.user.revision,
                      bytes.subspan(sizeof(xt_entry_match), size - sizeof(xt_entry_match))});
    bytes = bytes.subspan(size);
  }
}

/// Each chain ends with a rule for all packets that returns.
bool is_chain_end(const IptablesRule& rule) {
  return rule.match == IptablesRule::Destination::any && rule.protocol == LB_ANY_PROTOCOL &&
         rule.ports.empty() && rule.clients == RuleClients::all && rule.comment.empty() &&
         rule.unread.empty();
}

class TableReader {
 public:
  TableReader(Bytes entries, int family) : entries_(entries), family_(family) {}

  std::vector<IptablesRule> read() {
    while (at_ < entries_.size()) {
      if (take_entry()) {
        continue;
      }
      end_with("an entry that is not as the kernel writes it");
      break;
    }
    for (const auto& [number, offset] : jumps_) {
      if (const auto chain = starts_.find(offset); chain != starts_.end()) {
        rules_[number].target = chain->second;
      }
    }
    return std::move(rules_);
  }

 private:
  /// What follows may be any rule of any chain.
  void end_with(const char* what) {
    IptablesRule rule;
    rule.chain = "KUBE-SERVICES";
    rule.target = "unknown";
    rule.not_understood(what);
    rules_.push_back(std::move(rule));
    at_ = entries_.size();
  }

  /// False if the entry is malformed.
  bool take_entry() {
    const auto bytes = entries_.subspan(at_);
    IptablesRule rule;
    rule.chain = chain_;
    const auto head = take_head(rule, bytes, family_);
    if (!head || !is_valid(*head, bytes)) {
      return false;
    }
    take_matches(rule, bytes.subspan(head->matches, head->target - head->matches));
    at_ += head->next;
    take_entry_target(std::move(rule), bytes.subspan(head->target, head->next - head->target));
    return true;
  }

  void take_entry_target(IptablesRule rule, Bytes bytes) {
    xt_entry_target target;
    if (!read_into(target, bytes)) {
      return;  // cannot happen after is_valid()
    }
    const auto info = bytes.subspan(sizeof(xt_entry_target));
    auto name = name_of(target.u.user.name);
    if (name == XT_ERROR_TARGET) {
      chain_ = netlink::text_of(info.first(std::min<std::size_t>(info.size(), XT_FUNCTION_MAXNAMELEN)));
      starts_[at_] = chain_;
      return;
    }
    if (name.empty()) {
      take_verdict(rule, netlink::read<int>(info).value_or(0));
    } else {
      take_target(rule, {std::move(name), target.u.user.revision, info}, family_);
    }
    rules_.push_back(std::move(rule));
  }

  void take_verdict(IptablesRule& rule, int verdict) {
    if (verdict >= 0) {
      jumps_[rules_.size()] = static_cast<std::size_t>(verdict);
    } else if (verdict != XT_RETURN || !is_chain_end(rule)) {
      rule.target = verdict_name(verdict == XT_RETURN ? NFT_RETURN : -verdict - 1);
    }
  }

  Bytes entries_;
  int family_;
  std::size_t at_ = 0;
  std::string chain_;
  std::vector<IptablesRule> rules_;
  std::map<std::size_t, std::string> starts_;  ///< chain by the offset of its first rule
  std::map<std::size_t, std::size_t> jumps_;   ///< rule number to the offset to which it jumps
};

}  // namespace

std::vector<IptablesRule> legacy_iptables_rules(Bytes entries, int family) {
  return TableReader(entries, family).read();
}

}  // namespace lb::agent
