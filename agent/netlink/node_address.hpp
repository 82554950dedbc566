// SPDX-License-Identifier: Apache-2.0
// A node address and the kind under which the maps hold it.
#pragma once

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

/// One of this node's addresses, and whether node ports are served on it.
struct NodeAddress {
  k8s::Address address;
  lb_address_kind kind = LB_NODE_ADDRESS;
};

}  // namespace lb::agent
