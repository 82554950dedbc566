// SPDX-License-Identifier: Apache-2.0
// Sends messages between the begin and end markers of a batch.
#include "agent/netlink/nf_batch.hpp"

#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <utility>

#include "agent/base/system_error.hpp"
#include "agent/netlink/netfilter.hpp"

namespace lb::agent {

using boost::system::error_code;
using netlink::Bytes;
using netlink::Request;
using netlink::Wanted;

NfBatch::NfBatch(int family) : family_(family) { add_marker(NFNL_MSG_BATCH_BEGIN); }

Request NfBatch::request(int message, Wanted wanted) const {
  return netfilter_request(NFNL_SUBSYS_NFTABLES, message, wanted, family_);
}

void NfBatch::add(Request request) {
  const auto message = request.bytes();
  bytes_.insert(bytes_.end(), message.begin(), message.end());
}

error_code NfBatch::commit(Request last) { return commit(open_netfilter().get(), std::move(last)); }

error_code NfBatch::commit(int socket, Request last) {
  add(std::move(last));
  add_marker(NFNL_MSG_BATCH_END);
  const auto size = static_cast<int>(bytes_.size() + 4096);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
  if (::send(socket, bytes_.data(), bytes_.size(), 0) < 0) {
    return last_error();
  }
  return netlink::receive(socket, [](const auto&, Bytes) {});
}

void NfBatch::add_marker(int message) {
  nfgenmsg head{};
  head.res_id = htobe16(NFNL_SUBSYS_NFTABLES);
  add(Request(static_cast<std::uint16_t>(message), Wanted::nothing, head));
}

}  // namespace lb::agent
