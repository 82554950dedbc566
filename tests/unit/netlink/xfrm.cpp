// SPDX-License-Identifier: Apache-2.0
// Which packets that leave the node IPsec policies cover (REL-88).
#include "agent/netlink/xfrm.hpp"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
// linux/xfrm.h needs types from the headers before it.
#include <arpa/inet.h>
#include <linux/xfrm.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace lb::agent {
namespace {

struct Policy {
  std::string destination = "10.244.2.0/24";
  std::uint8_t direction = XFRM_POLICY_OUT;
  std::uint8_t action = XFRM_POLICY_ALLOW;
  std::size_t templates = 1;
  std::uint32_t device = 0;
  std::string source = "0.0.0.0/0";
  std::uint8_t optional = 0;  ///< whether all templates are optional
};

void attribute(std::vector<std::byte>& bytes, std::uint16_t type, const void* content, std::size_t size) {
  const nlattr head{static_cast<std::uint16_t>(sizeof(nlattr) + size), type};
  const auto at = bytes.size();
  bytes.resize(at + sizeof(head) + (size + 3) / 4 * 4);
  std::memcpy(bytes.data() + at, &head, sizeof(head));
  std::memcpy(bytes.data() + at + sizeof(head), content, size);
}

/// Stores the range's address; returns its prefix length.
std::uint8_t take_range(const std::string& range, int family, xfrm_address_t* address) {
  const auto slash = range.find('/');
  ::inet_pton(family, range.substr(0, slash).c_str(), address);
  return static_cast<std::uint8_t>(std::stoi(range.substr(slash + 1)));
}

std::vector<std::byte> body_of(const Policy& policy) {
  xfrm_userpolicy_info info{};
  info.sel.family = policy.destination.find(':') == std::string::npos ? AF_INET : AF_INET6;
  info.sel.prefixlen_d = take_range(policy.destination, info.sel.family, &info.sel.daddr);
  info.sel.prefixlen_s = take_range(policy.source, info.sel.family, &info.sel.saddr);
  info.dir = policy.direction;
  info.action = policy.action;
  std::vector<std::byte> bytes(sizeof(info));
  std::memcpy(bytes.data(), &info, sizeof(info));
  bytes.resize((bytes.size() + 3) / 4 * 4);
  if (policy.templates > 0) {
    std::vector<xfrm_user_tmpl> templates(policy.templates);
    for (auto& each : templates) {
      each.optional = policy.optional;
    }
    attribute(bytes, XFRMA_TMPL, templates.data(), templates.size() * sizeof(xfrm_user_tmpl));
  }
  if (policy.device != 0) {
    attribute(bytes, XFRMA_IF_ID, &policy.device, sizeof(policy.device));
  }
  return bytes;
}

nlmsghdr head_of(std::uint16_t type) {
  nlmsghdr head{};
  head.nlmsg_type = type;
  return head;
}

XfrmPolicies taken(const std::vector<Policy>& all) {
  XfrmPolicies policies;
  for (const auto& policy : all) {
    take_policy(policies, head_of(XFRM_MSG_NEWPOLICY), body_of(policy));
  }
  return policies;
}

std::vector<std::string> texts(const XfrmPolicies& policies) {
  std::vector<std::string> all;
  for (const auto& range : policies.ranges) {
    all.push_back(range.text());
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a policy that encrypts or blocks what leaves binds its destination") {
  CHECK(texts(taken({{}})) == Texts{"10.244.2.0/24"});
  CHECK(texts(taken({{.direction = XFRM_POLICY_FWD}})) == Texts{"10.244.2.0/24"});
  CHECK(texts(taken({{.action = XFRM_POLICY_BLOCK, .templates = 0}})) == Texts{"10.244.2.0/24"});
  CHECK(texts(taken({{.destination = "fd00:244::/32"}})) == Texts{"fd00:244::/32"});
  CHECK(texts(taken({{.destination = "0.0.0.0/0"}, {.destination = "::/0"}})) == Texts{"::/0", "0.0.0.0/0"});
}

TEST_CASE("a policy that wants encrypted what is forwarded binds whom that comes from") {
  const Policy expects{.direction = XFRM_POLICY_FWD, .source = "10.9.0.0/16"};
  CHECK(texts(taken({expects})) == Texts{"10.9.0.0/16"});
  CHECK(texts(taken({{.destination = "fd00::/64", .direction = XFRM_POLICY_FWD, .source = "fd09::/16"}})) ==
        Texts{"fd09::/16"});
  auto odd = expects;
  odd.action = XFRM_POLICY_BLOCK;
  CHECK(texts(taken({odd})) == Texts{"10.244.2.0/24"});
  odd = expects;
  odd.direction = XFRM_POLICY_OUT;
  odd.optional = 1;
  CHECK(texts(taken({odd})) == Texts{"10.244.2.0/24"});
  odd.direction = XFRM_POLICY_FWD;
  CHECK(taken({odd}) == XfrmPolicies());
}

TEST_CASE("a policy for what comes in, for an xfrm device, or that lets pass binds nothing") {
  CHECK(taken({{.direction = XFRM_POLICY_IN}}) == XfrmPolicies());
  CHECK(taken({{.templates = 0}}) == XfrmPolicies());
  CHECK(taken({{.device = 7}}) == XfrmPolicies());
}

TEST_CASE("policies with one destination are one range, whatever bits are behind the prefix") {
  const auto policies = taken({{}, {.direction = XFRM_POLICY_FWD}, {.destination = "10.244.2.9/24"}});
  CHECK(policies.count == 3);
  CHECK(texts(policies) == Texts{"10.244.2.0/24"});
}

TEST_CASE("a default that blocks binds everything") {
  XfrmPolicies policies;
  xfrm_userpolicy_default action{};
  action.out = XFRM_USERPOLICY_BLOCK;
  std::vector<std::byte> body(sizeof(action));
  std::memcpy(body.data(), &action, sizeof(action));
  take_policy(policies, head_of(XFRM_MSG_GETDEFAULT), body);
  CHECK(texts(policies) == Texts{"::/0", "0.0.0.0/0"});
}

TEST_CASE("a message that is cut short says nothing") {
  for (const auto& policy : {Policy{}, Policy{.destination = "fd00::/64", .device = 3}}) {
    const auto whole = body_of(policy);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      XfrmPolicies policies;
      take_policy(policies, head_of(XFRM_MSG_NEWPOLICY), netlink::Bytes(whole).first(size));
      CHECK(policies.count <= 1);
      CHECK((size >= sizeof(xfrm_userpolicy_info) || policies == XfrmPolicies()));
    }
  }
  XfrmPolicies policies;
  take_policy(policies, head_of(XFRM_MSG_NEWPOLICY), body_of({.destination = "10.0.0.0/33"}));
  take_policy(policies, head_of(XFRM_MSG_GETDEFAULT), {});
  CHECK(policies == XfrmPolicies());
}

}  // namespace lb::agent
