// SPDX-License-Identifier: Apache-2.0
// errno values as error codes.
#pragma once

#include <boost/system/error_code.hpp>
#include <cerrno>

namespace lb::agent {

/// `number` is an errno value; 0: no error.
[[nodiscard]] inline boost::system::error_code system_error(int number) noexcept {
  return {number, boost::system::generic_category()};
}

/// The error of the call that has just failed.
[[nodiscard]] inline boost::system::error_code last_error() noexcept { return system_error(errno); }

}  // namespace lb::agent
