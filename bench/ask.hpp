// The commands of bench_connect that connect one time after the other and record which endpoint answers. For
// bench/connect.cpp, which describes them.
#pragma once

namespace lb::bench {

/// ADDRESS PORT
[[noreturn]] void watch(char** words);
/// ADDRESS PORT RATE SECONDS
void steady(char** words);

}  // namespace lb::bench
