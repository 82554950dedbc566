// Messages of nf_tables: dumps, and batches that the kernel commits as one.
#include "agent/netlink/nf_chains.hpp"

#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "agent/netlink/netlink.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::attribute;
using netlink::Bytes;
using netlink::read;
using netlink::Request;
using netlink::text_of;
using netlink::Wanted;

error_code last_error() { return {errno, boost::system::generic_category()}; }

maps::Fd open_socket() { return maps::Fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)); }

std::uint16_t type_of(int message) { return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message); }

nfgenmsg head_of(int family) {
  nfgenmsg head{};
  head.nfgen_family = static_cast<__u8>(family == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6);
  return head;
}

void read_chain(ChainTable& into, std::string_view table, Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  if (text_of(attribute(attributes, NFTA_CHAIN_TABLE)) != table) {
    return;
  }
  auto name = text_of(attribute(attributes, NFTA_CHAIN_NAME));
  if (!attribute(attributes, NFTA_CHAIN_HOOK).empty()) {
    into.base.insert(name);
  }
  into.chains.push_back(std::move(name));
}

/// The chain that an expression leads to; empty: none.
std::string led_to_by(Bytes expression) {
  if (text_of(attribute(expression, NFTA_EXPR_NAME)) != "immediate") {
    return {};
  }
  const auto data = attribute(attribute(expression, NFTA_EXPR_DATA), NFTA_IMMEDIATE_DATA);
  return text_of(attribute(attribute(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN));
}

void read_rule(ChainTable& into, std::string_view table, Bytes body) {
  const auto attributes = netlink::after(body, sizeof(nfgenmsg));
  if (text_of(attribute(attributes, NFTA_RULE_TABLE)) != table) {
    return;
  }
  const auto handle = read<std::uint64_t>(attribute(attributes, NFTA_RULE_HANDLE)).value_or(0);
  netlink::for_each_attribute(attribute(attributes, NFTA_RULE_EXPRESSIONS), [&](unsigned short, Bytes each) {
    if (auto chain = led_to_by(each); !chain.empty()) {
      into.jumps.push_back(
          {text_of(attribute(attributes, NFTA_RULE_CHAIN)), be64toh(handle), std::move(chain)});
    }
  });
}

/// Changes that the kernel makes together.
class Batch {
 public:
  explicit Batch(int family) : family_(family) { add_marker(NFNL_MSG_BATCH_BEGIN); }

  [[nodiscard]] Request request(int message, Wanted wanted = Wanted::nothing) const {
    return {type_of(message), wanted, head_of(family_)};
  }
  void add(Request request) {
    const auto message = request.bytes();
    bytes_.insert(bytes_.end(), message.begin(), message.end());
  }
  /// The last change is the one whose acknowledgement is waited for: it comes behind all errors.
  [[nodiscard]] error_code commit(Request last) {
    add(std::move(last));
    add_marker(NFNL_MSG_BATCH_END);
    const auto socket = open_socket();
    const auto size = static_cast<int>(bytes_.size() + 4096);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    if (::send(socket.get(), bytes_.data(), bytes_.size(), 0) < 0) {
      return last_error();
    }
    return netlink::hear(socket.get(), [](const auto&, Bytes) {});
  }

 private:
  void add_marker(int message) {
    nfgenmsg head{};
    head.res_id = htobe16(NFNL_SUBSYS_NFTABLES);
    add(Request(static_cast<std::uint16_t>(message), Wanted::nothing, head));
  }

  int family_;
  std::vector<std::byte> bytes_;
};

}  // namespace

ChainTable read_nf_table(int family, std::string_view table) {
  ChainTable found;
  const auto socket = open_socket();
  static_cast<void>(netlink::ask(socket.get(),
                                 Request(type_of(NFT_MSG_GETCHAIN), Wanted::all, head_of(family)),
                                 [&](const auto&, Bytes body) { read_chain(found, table, body); }));
  if (found.chains.empty()) {
    return found;
  }
  Request rules(type_of(NFT_MSG_GETRULE), Wanted::all, head_of(family));
  rules.add(NFTA_RULE_TABLE, table);
  static_cast<void>(netlink::ask(socket.get(), std::move(rules),
                                 [&](const auto&, Bytes body) { read_rule(found, table, body); }));
  return found;
}

error_code remove_nf_chains(int family, std::string_view table, const ChainRemoval& removal) {
  if (removal.chains.empty()) {
    return {};
  }
  Batch batch(family);
  for (const auto& jump : removal.jumps) {
    auto request = batch.request(NFT_MSG_DELRULE);
    request.add(NFTA_RULE_TABLE, table).add(NFTA_RULE_CHAIN, jump.from);
    request.add_network_order(NFTA_RULE_HANDLE, jump.rule);
    batch.add(std::move(request));
  }
  for (const auto& chain : removal.chains) {
    auto request = batch.request(NFT_MSG_DELRULE);  // without a handle: all of its rules
    request.add(NFTA_RULE_TABLE, table).add(NFTA_RULE_CHAIN, chain);
    batch.add(std::move(request));
  }
  const auto delete_chain = [&](const std::string& chain, Wanted wanted) {
    auto request = batch.request(NFT_MSG_DELCHAIN, wanted);
    request.add(NFTA_CHAIN_TABLE, table).add(NFTA_CHAIN_NAME, chain);
    return request;
  };
  for (std::size_t at = 0; at + 1 < removal.chains.size(); ++at) {
    batch.add(delete_chain(removal.chains[at], Wanted::nothing));
  }
  return batch.commit(delete_chain(removal.chains.back(), Wanted::one));
}

bool has_nf_table(int family, std::string_view table) {
  const auto socket = open_socket();
  Request request(type_of(NFT_MSG_GETTABLE), Wanted::one, head_of(family));
  request.add(NFTA_TABLE_NAME, table);
  return !netlink::ask(socket.get(), std::move(request), [](const auto&, Bytes) {});
}

error_code remove_nf_table(int family, std::string_view table) {
  Batch batch(family);
  auto request = batch.request(NFT_MSG_DELTABLE, Wanted::one);
  request.add(NFTA_TABLE_NAME, table);
  return batch.commit(std::move(request));
}

}  // namespace lb::agent
