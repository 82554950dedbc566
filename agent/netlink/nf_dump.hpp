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

/// An expression of a rule: "payload" and its attributes. Points into the rule.
struct NfExpression {
  std::string name;
  netlink::Bytes data;
};

struct NfRule {
  std::string chain;
  std::vector<std::byte> bytes;  ///< NFTA_RULE_EXPRESSIONS
};

/// In the rule's order.
[[nodiscard]] std::vector<NfExpression> expressions_of(const NfRule& rule);

/// What a verdict says: a chain to go to, or an end.
struct NfVerdict {
  std::int32_t code = 0;  ///< NF_DROP, NFT_GOTO, ...
  std::string chain;      ///< of NFT_GOTO and NFT_JUMP
};

/// `data` holds NFTA_DATA_...; nothing where it is no verdict.
[[nodiscard]] std::optional<NfVerdict> verdict_of(netlink::Bytes data);

/// An element of a map.
struct NfElement {
  std::vector<std::byte> key;
  std::vector<std::byte> value;  ///< empty: `verdict` is the value
  std::optional<NfVerdict> verdict;
  std::string comment;
};

struct NfSet {
  std::uint32_t flags = 0;       ///< NFT_SET_...
  std::uint64_t timeout_ms = 0;  ///< of elements, 0: they stay
  std::vector<NfElement> elements;
};

class NfDump {
 public:
  /// Messages about other tables are passed over.
  explicit NfDump(std::string_view table) : table_(table) {}

  /// An answer to NFT_MSG_GETRULE, NFT_MSG_GETSET or NFT_MSG_GETSETELEM. What is not as the kernel writes it
  /// is passed over.
  void take(const nlmsghdr& head, netlink::Bytes body);

  [[nodiscard]] const std::vector<NfRule>& rules() const noexcept { return rules_; }
  [[nodiscard]] const std::map<std::string, NfSet, std::less<>>& sets() const noexcept { return sets_; }
  /// Null where the table has none of that name.
  [[nodiscard]] const NfSet* find_set(std::string_view name) const;

 private:
  void take_rule(netlink::Bytes attributes);
  void take_set(netlink::Bytes attributes);
  void take_elements(netlink::Bytes attributes);

  std::string table_;
  std::vector<NfRule> rules_;
  std::map<std::string, NfSet, std::less<>> sets_;
};

/// Of AF_INET or AF_INET6: all rules, and the elements of all maps, as they were at one moment. No table is
/// no error, and no rules. EPERM without CAP_NET_ADMIN; EINTR where the table changed during each of some
/// attempts.
[[nodiscard]] boost::system::result<NfDump> read_nf_dump(int family, std::string_view table);

}  // namespace lb::agent
