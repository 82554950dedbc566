// SPDX-License-Identifier: Apache-2.0
// Requests for whole tables of nf_tables.
#include "agent/netlink/nf_tables.hpp"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <utility>

#include "agent/netlink/netfilter.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/nf_batch.hpp"

namespace lb::agent {

using boost::system::error_code;
using netlink::Bytes;
using netlink::Wanted;

namespace {

/// No error if the table exists.
error_code request_table(int family, std::string_view table) {
  const auto socket = open_netfilter();
  auto request = netfilter_request(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETTABLE, Wanted::one, family);
  request.add(NFTA_TABLE_NAME, table);
  return netlink::ask(socket.get(), std::move(request), [](const auto&, Bytes) {});
}

}  // namespace

error_code nf_tables_error() {
  const auto error = request_table(AF_INET, "sluice");
  return error == boost::system::errc::no_such_file_or_directory ? error_code() : error;
}

bool has_nf_table(int family, std::string_view table) { return !request_table(family, table); }

error_code remove_nf_table(int family, std::string_view table) {
  NfBatch batch(family);
  auto request = batch.request(NFT_MSG_DELTABLE, Wanted::one);
  request.add(NFTA_TABLE_NAME, table);
  return batch.commit(std::move(request));
}

}  // namespace lb::agent
