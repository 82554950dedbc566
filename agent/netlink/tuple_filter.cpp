// SPDX-License-Identifier: Apache-2.0
// The table in nft's syntax:
//
//   table ip sluice-hand-over-4711 {
//     flags owner
//     set dropped { type ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service }
//     chain in {
//       type filter hook prerouting priority raw
//       ip saddr . ip daddr . meta l4proto . th sport . th dport @dropped drop
//     }
//     chain out { type filter hook output priority raw; … }
//   }
//
// Each part of a key is padded to whole registers of 32 bits, in the order of nft's types.
#include "agent/netlink/tuple_filter.hpp"

#include <endian.h>
#include <fmt/format.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netfilter.hpp"
#include "agent/netlink/nf_batch.hpp"
#include "agent/netlink/nf_requests.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using netlink::Bytes;
using netlink::Request;
using netlink::Wanted;

constexpr std::string_view set_name = "dropped";
constexpr std::uint32_t register_size = 4;

struct BaseChain {
  std::string_view name;
  std::uint32_t hook;
};
constexpr std::array<BaseChain, 2> base_chains = {{{"in", NF_INET_PRE_ROUTING}, {"out", NF_INET_LOCAL_OUT}}};

/// What differs between the families: the bytes of an address, the offset of the source in the header, and
/// nft's number of the type.
struct AddressForm {
  std::uint32_t size;
  std::uint32_t source_at;
  std::uint32_t type;
};

constexpr AddressForm form_of(int family) {
  return family == AF_INET ? AddressForm{.size = 4, .source_at = 12, .type = 7}
                           : AddressForm{.size = 16, .source_at = 8, .type = 8};
}

constexpr std::uint32_t key_size(int family) { return 2 * form_of(family).size + 3 * register_size; }

/// nft prints the elements by this number: six bits for each part's type.
constexpr std::uint32_t key_type(int family) {
  constexpr std::uint32_t bits = 6, protocol = 12, port = 13;
  const auto address = form_of(family).type;
  return (((address << bits | address) << bits | protocol) << bits | port) << bits | port;
}

std::vector<std::byte> key_of(const TrackedTuple& tuple) {
  std::vector<std::byte> key;
  const auto add = [&key](Bytes bytes) {
    key.insert(key.end(), bytes.begin(), bytes.end());
    key.resize((key.size() + register_size - 1) / register_size * register_size);
  };
  const auto add_port = [&add](std::uint16_t port) {
    const std::uint16_t sent = htobe16(port);
    add(std::as_bytes(std::span(&sent, 1)));
  };
  const auto protocol = static_cast<std::uint8_t>(tuple.protocol);
  add(k8s::raw_bytes(tuple.source));
  add(k8s::raw_bytes(tuple.destination));
  add(std::as_bytes(std::span(&protocol, 1)));
  add_port(tuple.source_port);
  add_port(tuple.destination_port);
  return key;
}

/// Loads the packet's tuple into registers, as key_of() has it.
void add_tuple(Request& rule, int family) {
  const auto form = form_of(family);
  std::uint32_t next = NFT_REG32_00;
  const auto add_payload = [&](nft_payload_bases base, std::uint32_t at, std::uint32_t size) {
    add_expression(rule, "payload", [&](Request& data) {
      data.add_network_order(NFTA_PAYLOAD_DREG, next)
          .add_network_order(NFTA_PAYLOAD_BASE, std::uint32_t{base});
      data.add_network_order(NFTA_PAYLOAD_OFFSET, at).add_network_order(NFTA_PAYLOAD_LEN, size);
    });
    next += (size + register_size - 1) / register_size;
  };
  add_payload(NFT_PAYLOAD_NETWORK_HEADER, form.source_at, form.size);
  add_payload(NFT_PAYLOAD_NETWORK_HEADER, form.source_at + form.size, form.size);
  add_expression(rule, "meta", [&](Request& data) {
    data.add_network_order(NFTA_META_DREG, next++);
    data.add_network_order(NFTA_META_KEY, std::uint32_t{NFT_META_L4PROTO});
  });
  add_payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, sizeof(std::uint16_t));
  add_payload(NFT_PAYLOAD_TRANSPORT_HEADER, sizeof(std::uint16_t), sizeof(std::uint16_t));
}

Request owned_table(const NfBatch& batch, std::string_view table) {
  auto request = new_nf_table(batch, table);
  request.add_network_order(NFTA_TABLE_FLAGS, std::uint32_t{NFT_TABLE_F_OWNER});
  return request;
}

Request new_set(const NfBatch& batch, std::string_view table, int family) {
  auto request = batch.request(NFT_MSG_NEWSET);
  request.with_flags(NLM_F_CREATE).add(NFTA_SET_TABLE, table).add(NFTA_SET_NAME, set_name);
  request.add_network_order(NFTA_SET_ID, std::uint32_t{1});
  request.add_network_order(NFTA_SET_KEY_TYPE, key_type(family));
  request.add_network_order(NFTA_SET_KEY_LEN, key_size(family));
  return request;
}

Request base_chain(const NfBatch& batch, std::string_view table, const BaseChain& chain) {
  auto request = new_nf_chain(batch, table, chain.name);
  add_hook(request, "filter", chain.hook, NF_IP_PRI_RAW);
  return request;
}

void add_expressions(Request& rule, int family) {
  add_tuple(rule, family);
  add_expression(rule, "lookup", [](Request& data) {
    data.add(NFTA_LOOKUP_SET, set_name);
    data.add_network_order(NFTA_LOOKUP_SREG, std::uint32_t{NFT_REG32_00});
  });
  add_verdict(rule, NF_DROP);
}

Request set_elements(const NfBatch& batch, int message, std::string_view table, Wanted wanted) {
  auto request = batch.request(message, wanted);
  request.add(NFTA_SET_ELEM_LIST_TABLE, table).add(NFTA_SET_ELEM_LIST_SET, set_name);
  return request;
}

}  // namespace

DroppedPackets::DroppedPackets(TupleFilter* filter, std::span<const TrackedTuple> tuples) : filter_(filter) {
  if (filter_ != nullptr) {
    static_cast<void>(filter_->drop(tuples));
  }
}

DroppedPackets::~DroppedPackets() {
  if (filter_ != nullptr) {
    static_cast<void>(filter_->drop({}));
  }
}

boost::system::result<NfTupleFilter> NfTupleFilter::open() {
  auto socket = open_netfilter();
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
  // Bound by the kernel to a port that is unique in this network namespace.
  if (::bind(socket.get(), generic, size) != 0 || ::getsockname(socket.get(), generic, &size) != 0) {
    return last_error();
  }
  NfTupleFilter filter(std::move(socket), fmt::format("sluice-hand-over-{}", address.nl_pid));
  if (const auto error = filter.create(AF_INET)) {
    return error;
  }
  static_cast<void>(filter.create(AF_INET6));
  return filter;
}

error_code NfTupleFilter::create(int family) const {
  NfBatch batch(family);
  const auto rule = [&](const BaseChain& chain, Wanted wanted) {
    return new_nf_rule(batch, table_, chain.name, wanted,
                       [family](Request& added) { add_expressions(added, family); });
  };
  batch.add(owned_table(batch, table_));
  batch.add(new_set(batch, table_, family));
  for (const auto& chain : base_chains) {
    batch.add(base_chain(batch, table_, chain));
  }
  batch.add(rule(base_chains[0], Wanted::nothing));
  return batch.commit(socket_.get(), rule(base_chains[1], Wanted::one));
}

error_code NfTupleFilter::drop(std::span<const TrackedTuple> tuples) {
  if (!socket_) {
    return system_error(EBADF);
  }
  const int family = tuples.empty() ? filled_ : family_of(tuples.front());
  if (family == 0) {
    return {};
  }
  error_code error;
  if (filled_ != 0 && filled_ != family) {
    error = replace(filled_, {});
  }
  if (!error) {
    error = replace(family, tuples);
  }
  filled_ = tuples.empty() ? 0 : family;
  if (error) {
    socket_ = maps::Fd();
  }
  return error;
}

error_code NfTupleFilter::replace(int family, std::span<const TrackedTuple> tuples) const {
  NfBatch batch(family);
  auto flush =
      set_elements(batch, NFT_MSG_DELSETELEM, table_, tuples.empty() ? Wanted::one : Wanted::nothing);
  if (tuples.empty()) {
    return batch.commit(socket_.get(), std::move(flush));
  }
  batch.add(std::move(flush));
  auto request = set_elements(batch, NFT_MSG_NEWSETELEM, table_, Wanted::one);
  request.with_flags(NLM_F_CREATE);
  request.nest(NFTA_SET_ELEM_LIST_ELEMENTS, [&](Request& list) {
    for (const auto& tuple : tuples) {
      list.nest(NFTA_LIST_ELEM,
                [&](Request& element) { add_value(element, NFTA_SET_ELEM_KEY, key_of(tuple)); });
    }
  });
  return batch.commit(socket_.get(), std::move(request));
}

}  // namespace lb::agent
