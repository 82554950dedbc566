// SPDX-License-Identifier: Apache-2.0
// Entries of /proc whose names are numbers: processes, and a process's descriptors.
#pragma once

#include <functional>
#include <string>

namespace lb::agent {

/// Calls `visit` with each of a directory's names that is a number, until it returns false. A directory that
/// is gone, or that we may not list, has none.
void for_each_number(const std::string& directory, const std::function<bool(int number)>& visit);

}  // namespace lb::agent
