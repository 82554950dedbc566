// SPDX-License-Identifier: Apache-2.0
// The commands of bench_connect that make one connection after the other and record which endpoint answers.
// Described in bench/connect.cpp, the only user.
#pragma once

namespace lb::bench {

/// ADDRESS PORT
[[noreturn]] void watch(char** words);
/// ADDRESS PORT RATE SECONDS
void steady(char** words);

}  // namespace lb::bench
