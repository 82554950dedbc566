// The commands of bench_connect that ask one endpoint after the other, and tell who answers. For
// bench/connect.cpp, which describes them.
#pragma once

namespace lb::bench {

/// ADDRESS PORT
[[noreturn]] void watch(char** words);
/// ADDRESS PORT RATE SECONDS
void steady(char** words);

}  // namespace lb::bench
