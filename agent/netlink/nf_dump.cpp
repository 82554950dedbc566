// SPDX-License-Identifier: Apache-2.0
// Dumps a table's rules, its sets, and each map's elements; starts over if the table changed meanwhile.
#include "agent/netlink/nf_dump.hpp"

#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <utility>

#include "agent/netlink/netfilter.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::Request;
using netlink::text_of;
using netlink::Wanted;

constexpr int attempts = 10;
constexpr std::uint8_t comment_type = 0;  // NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_SET_ELEM_COMMENT

std::vector<std::byte> copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// The comment in the userdata of a rule or an element, which nft writes as TLVs: type, size, value.
std::string comment_of(Bytes userdata) {
  while (userdata.size() >= 2) {
    const auto size = std::to_integer<std::size_t>(userdata[1]);
    if (userdata.size() < 2 + size) {
      break;
    }
    if (std::to_integer<std::uint8_t>(userdata[0]) == comment_type) {
      return text_of(userdata.subspan(2, size));
    }
    userdata = userdata.subspan(2 + size);
  }
  return {};
}

NfElement element_of(Bytes attributes) {
  const auto data = attribute(attributes, NFTA_SET_ELEM_DATA);
  return {copy_of(attribute(attribute(attributes, NFTA_SET_ELEM_KEY), NFTA_DATA_VALUE)),
          copy_of(attribute(data, NFTA_DATA_VALUE)), verdict_of(data),
          comment_of(attribute(attributes, NFTA_SET_ELEM_USERDATA))};
}

int kind_of(const nlmsghdr& head) {
  return head.nlmsg_type >> 8U == NFNL_SUBSYS_NFTABLES ? head.nlmsg_type & 0xffU : -1;
}

class Reader {
 public:
  Reader(int family, std::string_view table) : family_(family), table_(table), dump_(table) {}

  boost::system::result<NfDump> read() {
    if (auto error = list(NFT_MSG_GETRULE, NFTA_RULE_TABLE, {})) {
      return error;
    }
    if (auto error = list(NFT_MSG_GETSET, NFTA_SET_TABLE, {})) {
      return error;
    }
    std::vector<std::string> maps;
    for (const auto& [name, set] : dump_.sets()) {
      if ((set.flags & NFT_SET_MAP) != 0) {
        maps.push_back(name);
      }
    }
    for (const auto& name : maps) {
      if (auto error = list(NFT_MSG_GETSETELEM, NFTA_SET_ELEM_LIST_TABLE, name)) {
        return error;
      }
    }
    return std::move(dump_);
  }

 private:
  /// `set`: the set whose elements are listed; empty: list the table's rules or sets.
  error_code list(int message, std::uint16_t table_attribute, std::string_view set) {
    auto request = netfilter_request(NFNL_SUBSYS_NFTABLES, message, Wanted::all, family_);
    request.add(table_attribute, table_);
    if (!set.empty()) {
      request.add(NFTA_SET_ELEM_LIST_SET, set);
    }
    const auto error = netlink::ask(socket_.get(), std::move(request),
                                    [this](const auto& head, Bytes body) { dump_.take(head, body); });
    return error.value() == ENOENT && set.empty() ? error_code() : error;
  }

  maps::Fd socket_ = open_netfilter();
  int family_;
  std::string_view table_;
  NfDump dump_;
};

}  // namespace

std::vector<NfExpression> expressions_of(const NfRule& rule) {
  std::vector<NfExpression> expressions;
  netlink::for_each_attribute(rule.bytes, [&](unsigned short, Bytes each) {
    expressions.push_back({text_of(attribute(each, NFTA_EXPR_NAME)), attribute(each, NFTA_EXPR_DATA)});
  });
  return expressions;
}

std::optional<NfVerdict> verdict_of(Bytes data) {
  const auto verdict = attribute(data, NFTA_DATA_VERDICT);
  const auto code = read<std::uint32_t>(attribute(verdict, NFTA_VERDICT_CODE));
  if (!code) {
    return std::nullopt;
  }
  return NfVerdict{static_cast<std::int32_t>(be32toh(*code)),
                   text_of(attribute(verdict, NFTA_VERDICT_CHAIN))};
}

void NfDump::take(const nlmsghdr& head, Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  switch (kind_of(head)) {
    case NFT_MSG_NEWRULE:
      return take_rule(attributes);
    case NFT_MSG_NEWSET:
      return take_set(attributes);
    case NFT_MSG_NEWSETELEM:
      return take_elements(attributes);
    default:
      break;
  }
}

void NfDump::take_rule(Bytes attributes) {
  if (text_of(attribute(attributes, NFTA_RULE_TABLE)) != table_) {
    return;
  }
  rules_.push_back({text_of(attribute(attributes, NFTA_RULE_CHAIN)),
                    copy_of(attribute(attributes, NFTA_RULE_EXPRESSIONS)),
                    comment_of(attribute(attributes, NFTA_RULE_USERDATA))});
}

void NfDump::take_set(Bytes attributes) {
  if (text_of(attribute(attributes, NFTA_SET_TABLE)) != table_) {
    return;
  }
  auto& set = sets_[text_of(attribute(attributes, NFTA_SET_NAME))];
  set.flags = be32toh(read<std::uint32_t>(attribute(attributes, NFTA_SET_FLAGS)).value_or(0));
  set.timeout_ms = be64toh(read<std::uint64_t>(attribute(attributes, NFTA_SET_TIMEOUT)).value_or(0));
}

void NfDump::take_elements(Bytes attributes) {
  if (text_of(attribute(attributes, NFTA_SET_ELEM_LIST_TABLE)) != table_) {
    return;
  }
  const auto set = sets_.find(text_of(attribute(attributes, NFTA_SET_ELEM_LIST_SET)));
  if (set == sets_.end()) {
    return;
  }
  netlink::for_each_attribute(
      attribute(attributes, NFTA_SET_ELEM_LIST_ELEMENTS),
      [&](unsigned short, Bytes each) { set->second.elements.push_back(element_of(each)); });
}

const NfSet* NfDump::find_set(std::string_view name) const {
  const auto found = sets_.find(name);
  return found == sets_.end() ? nullptr : &found->second;
}

boost::system::result<NfDump> read_nf_dump(int family, std::string_view table) {
  auto dump = Reader(family, table).read();
  for (int attempt = 1; attempt < attempts && !dump; ++attempt) {
    // A map may be deleted between the list of maps and the list of its elements.
    const auto code = dump.error().value();
    if (code != EINTR && code != ENOENT) {
      break;
    }
    dump = Reader(family, table).read();
  }
  return dump;
}

}  // namespace lb::agent
