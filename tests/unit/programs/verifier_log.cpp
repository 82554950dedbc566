// SPDX-License-Identifier: Apache-2.0
// Which lines of the verifier's log are shown to the operator: from real logs, and for each form of reason
// (REL-95).
#include "agent/programs/verifier_log.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"

namespace {

using lb::agent::verifier_reason;

/// The end of a verifier log of one of our programs that a kernel refused.
std::string real_log(const std::string& name) {
  return lb::test::content_of(lb::test::source_path("tests/corpus/verifier/" + name));
}

TEST_CASE("a verifier's log ends with its reason, and more after it") {
  CHECK(verifier_reason(real_log("6.1-lb_tc_in.log")) ==
        "R2 type=mem expected=fp, pkt, pkt_meta, map_key, map_value");
  CHECK(verifier_reason(real_log("6.12-lb_tc_in.log")) == "R4 invalid zero-sized read: u64=[0,4294967295]");
}

constexpr const char* figures =
    "processed 3 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n";

TEST_CASE("reasons, without what stands around them") {
  struct Row {
    const char* what;
    const char* log;
    const char* reason;
  };
  const Row rows[] = {
      {"one line", "0: R1=ctx() R10=fp0\n0: (95) exit\nR0 !read_ok\n", "R0 !read_ok"},
      {"two lines that belong together",
       "12: (79) r1 = *(u64 *)(r0 +448)\ninvalid access to map value, value_size=448 off=448 size=8\n"
       "R0 min value is outside of the allowed memory range\n",
       "invalid access to map value, value_size=448 off=448 size=8; R0 min value is outside of the allowed "
       "memory range"},
      {"only the last of several", "first complaint\n3: (95) exit\nsecond complaint\n", "second complaint"},
      {"no more than two lines", "one\ntwo\nthree\n", "two; three"},
      {"remarks of the search",
       "combined stack size of 5 calls is 528. Too large\nverification time 12 usec\nstack depth 8+0\n",
       "combined stack size of 5 calls is 528. Too large"},
      {"registers of a frame", "R1 invalid mem access 'scalar'\n frame1: R1=scalar() R10=fp0\n",
       "R1 invalid mem access 'scalar'"},
      {"source lines and branches", "unknown func bpf_probe_read_kernel#113\n; if (x)\nfrom 3 to 7: R0=1\n",
       "unknown func bpf_probe_read_kernel#113"},
      {"no log", "", ""},
      {"nothing but a program", "0: (b7) r0 = 0\n1: (95) exit\n", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    CHECK(verifier_reason(row.log) == row.reason);
    CHECK(verifier_reason(std::string(row.log) + figures) == row.reason);
  }
}

}  // namespace
