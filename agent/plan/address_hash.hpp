// SPDX-License-Identifier: Apache-2.0
// A hash of addresses for large tables. Pure.
#pragma once

#include <cstddef>

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

namespace lb::agent {

struct AddressHash {
  using is_avalanching = void;
  std::size_t operator()(const k8s::Address& address) const noexcept {
    const auto* bytes = address.bytes.data();
    return lb_mix(lb_mix(0, lb_word(bytes)), lb_word(bytes + 8));
  }
};

}  // namespace lb::agent
