// SPDX-License-Identifier: Apache-2.0
// Checks whether nf_tables, or one of its tables, exists, and removes a table. Uses netlink, so that no
// binary of the host is needed.
#pragma once

#include <boost/system/error_code.hpp>
#include <string_view>

namespace lb::agent {

/// No error if the kernel has nf_tables.
[[nodiscard]] boost::system::error_code nf_tables_error();
[[nodiscard]] bool has_nf_table(int family, std::string_view table);
[[nodiscard]] boost::system::error_code remove_nf_table(int family, std::string_view table);

}  // namespace lb::agent
