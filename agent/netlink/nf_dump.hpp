// SPDX-License-Identifier: Apache-2.0
// A table of nf_tables as the kernel lists it: its rules, and the elements of its maps.
#pragma once

#include <linux/netlink.h>

#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// An expression of a rule: its name ("payload") and its attributes. Views the rule's bytes.
struct NfExpression {
  std::string name;
  netlink::Bytes data;
};

struct NfRule {
  std::string chain;
  std::vector<std::byte> bytes;  ///< NFTA_RULE_EXPRESSIONS
  std::string comment;           ///< in its user data, where nft writes it
};

/// The rule's expressions, in order.
[[nodiscard]] std::vector<NfExpression> expressions_of(const NfRule& rule);

/// A verdict: a code, and the chain of a jump or goto.
struct NfVerdict {
  std::int32_t code = 0;  ///< NF_DROP, NFT_GOTO, ...
  std::string chain;      ///< target of NFT_GOTO and NFT_JUMP
};

/// `data` holds NFTA_DATA_…; nullopt if it is not a verdict.
[[nodiscard]] std::optional<NfVerdict> verdict_of(netlink::Bytes data);

/// An element of a map.
struct NfElement {
  std::vector<std::byte> key;
  std::vector<std::byte> value;  ///< empty if `verdict` is the value
  std::optional<NfVerdict> verdict;
  std::string comment;
};

struct NfSet {
  std::uint32_t flags = 0;       ///< NFT_SET_...
  std::uint64_t timeout_ms = 0;  ///< of elements; 0: they do not expire
  std::vector<NfElement> elements;
};

class NfDump {
 public:
  /// Messages about other tables are skipped.
  explicit NfDump(std::string_view table) : table_(table) {}

  /// Takes a reply to NFT_MSG_GETRULE, NFT_MSG_GETSET or NFT_MSG_GETSETELEM. Malformed messages are skipped.
  void take(const nlmsghdr& head, netlink::Bytes body);

  [[nodiscard]] const std::vector<NfRule>& rules() const noexcept { return rules_; }
  [[nodiscard]] const std::map<std::string, NfSet, std::less<>>& sets() const noexcept { return sets_; }
  /// Returns nullptr if the table has no set of that name.
  [[nodiscard]] const NfSet* find_set(std::string_view name) const;

 private:
  void take_rule(netlink::Bytes attributes);
  void take_set(netlink::Bytes attributes);
  void take_elements(netlink::Bytes attributes);

  std::string table_;
  std::vector<NfRule> rules_;
  std::map<std::string, NfSet, std::less<>> sets_;
};

/// Reads all rules and the elements of all maps of a table in one consistent state. `family`: AF_INET or
/// AF_INET6. A table that does not exist gives no rules and no error. EPERM without CAP_NET_ADMIN; EINTR if
/// the table changed during every attempt.
[[nodiscard]] boost::system::result<NfDump> read_nf_dump(int family, std::string_view table);

}  // namespace lb::agent
