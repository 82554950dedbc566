// SPDX-License-Identifier: Apache-2.0
// REL-130, REL-131: what is done without a program that the kernel refuses, against a kernel that is a list
// of refusals. tests/net/agent/refused_programs.sh lets the real one refuse each.
#include "agent/programs/acceptance.hpp"

#include <algorithm>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

namespace lb::agent {
namespace {

using Catch::Matchers::StartsWith;
using Names = std::vector<std::string>;

const Names programs = {"lb_peername4", "lb_recvmsg4",      "lb_sendmsg4", "lb_connect4",
                        "lb_connect6",  "lb_count_sockets", "lb_tc_in",    "lb_tc_out",
                        "lb_pod_in",    "lb_pod_out",       "lb_xdp",      "lb_xdp_sent"};

/// A kernel that refuses programs while they use features: all of those named, or any use if none is named.
struct Kernel {
  struct Dislike {
    std::string program;
    std::vector<Feature> features;
  };
  std::vector<Dislike> dislikes;
  Names chosen = programs;
  Names tried = {};  ///< "PROGRAM" or "PROGRAM without FEATURE", in the order of the attempts

  [[nodiscard]] std::string refusal(const std::string& program, const Features& features) const {
    const auto disliked = [&](const Dislike& dislike) {
      return dislike.program == program &&
             std::ranges::all_of(dislike.features, [&](Feature each) { return features.usable(each); });
    };
    return std::ranges::any_of(dislikes, disliked) ? "R4 invalid zero-sized read" : "";
  }

  Acceptance accept() {
    return accept_programs(Features(), {.chosen = [&](const Features&) { return chosen; },
                                        .load =
                                            [&](const std::string& program, const Features& features) {
                                              tried.push_back(program + " " + features.missing());
                                              return ProgramProbe{program, 7, refusal(program, features)};
                                            }});
  }
};

Names left_out(const Acceptance& accepted) { return {accepted.left_out.begin(), accepted.left_out.end()}; }

}  // namespace

TEST_CASE("REL-130 a program that is refused is left out, with those that would do harm without it") {
  struct Row {
    std::string refused;
    Names left_out;
    std::string effect;
  };
  const std::vector<Row> rows = {
      {"lb_peername4", {"lb_peername4"}, "getpeername shows backends"},
      {"lb_recvmsg4", {"lb_recvmsg4", "lb_sendmsg4"}, "unconnected UDP is left to the packets' hooks"},
      {"lb_sendmsg4", {"lb_sendmsg4"}, "unconnected UDP is left to the packets' hooks"},
      {"lb_connect4", {"lb_connect4"}, "connect is left to the packets' hooks"},
      {"lb_tc_in",
       {"lb_tc_in", "lb_tc_out", "lb_xdp", "lb_xdp_refused", "lb_xdp_sent"},
       "uplinks are not served"},
      {"lb_tc_out",
       {"lb_tc_in", "lb_tc_out", "lb_xdp", "lb_xdp_refused", "lb_xdp_sent"},
       "uplinks are not served"},
      {"lb_pod_in", {"lb_pod_in", "lb_pod_out"}, "pods' devices are not served"},
      {"lb_pod_out", {"lb_pod_in", "lb_pod_out"}, "pods' devices are not served"},
      {"lb_xdp", {"lb_xdp", "lb_xdp_refused", "lb_xdp_sent"}, "tc serves alone"},
      {"lb_xdp_sent", {"lb_xdp_refused", "lb_xdp_sent"}, "frames that devices drop are not noticed"},
      {"lb_count_sockets", {"lb_count_sockets"}, "the memory of sockets' storage has no limit"}};
  for (const auto& row : rows) {
    INFO(row.refused);
    Kernel kernel{.dislikes = {{row.refused, {}}}};
    const auto accepted = kernel.accept();
    CHECK(left_out(accepted) == row.left_out);
    REQUIRE(accepted.refusals.size() == 1);
    CHECK(accepted.refusals[0].program == row.refused);
    CHECK(refusal_effect(accepted.refusals[0]) == row.refused + " refused: " + row.effect);
    CHECK_THAT(refusal_text(accepted.refusals[0]),
               StartsWith("the kernel refuses the program " + row.refused +
                          " (R4 invalid zero-sized read); it is left out"));
    CHECK(accepted.loads.size() == programs.size() - 1);
    CHECK(accepted.features.missing() == Features().missing());
    CHECK(nothing_served(programs, accepted).empty());
  }
}

TEST_CASE(
    "REL-130 a refused program is tried without each of its features, in a fixed order, then without all") {
  Kernel kernel{.dislikes = {{"lb_tc_out", {}}}};
  const auto accepted = kernel.accept();
  Names without;
  for (const auto& attempt : accepted.refusals.at(0).attempts) {
    without.push_back(attempt.without);
  }
  CHECK(without ==
        Names{"", "tc-fastpath", "skb-sums", "csum-ipv6", "fib-mark", "fib-source", "egress-verdicts",
              "ct-lookup",
              "tc-fastpath, skb-sums, csum-ipv6, fib-mark, fib-source, egress-verdicts, ct-lookup"});
}

TEST_CASE(
    "REL-130 the feature without which a program loads is given up by all, and all are tried with the rest") {
  Kernel kernel{.dislikes = {{"lb_tc_out", {Feature::fib_mark}}, {"lb_pod_in", {Feature::ct_lookup}}}};
  const auto accepted = kernel.accept();
  CHECK(accepted.left_out.empty());
  CHECK(accepted.features.missing() == "fib-mark refused: not asked; ct-lookup refused: not asked");
  CHECK(accepted.features.state(Feature::ct_lookup) == FeatureState::refused);
  CHECK(accepted.loads.size() == programs.size());
  CHECK(kernel.tried.back() == "lb_xdp_sent fib-mark refused: not asked; ct-lookup refused: not asked");
  REQUIRE(accepted.refusals.size() == 2);
  CHECK(
      refusal_text(accepted.refusals[0]) ==
      "the kernel refuses the program lb_tc_out (R4 invalid zero-sized read); it is loaded without fib-mark");
}

TEST_CASE("REL-130 two features that are refused one by one are given up together") {
  Kernel kernel{.dislikes = {{"lb_tc_in", {Feature::skb_sums}}, {"lb_tc_in", {Feature::fib_source}}}};
  const auto accepted = kernel.accept();
  CHECK(accepted.left_out.empty());
  CHECK_FALSE(accepted.features.usable(Feature::skb_sums));
  CHECK_FALSE(accepted.features.usable(Feature::fib_source));
}

TEST_CASE("REL-130 nothing that tc uses is given up for XDP, which only saves time") {
  Kernel kernel{.dislikes = {{"lb_xdp", {Feature::ct_lookup}}}};
  CHECK(left_out(kernel.accept()) == Names{"lb_xdp", "lb_xdp_refused", "lb_xdp_sent"});
  kernel.dislikes = {{"lb_xdp", {Feature::xdp_fastpath}}};
  const auto accepted = kernel.accept();
  CHECK(accepted.left_out.empty());
  CHECK(accepted.features.missing() == "xdp-fastpath refused: slow path");
}

TEST_CASE("REL-131 an agent starts as long as sockets, uplinks or pods' devices can be served") {
  struct Row {
    Names refused;
    bool serves;
  };
  const std::vector<Row> rows = {{{"lb_connect4", "lb_tc_in", "lb_pod_in"}, true},  // by lb_connect6
                                 {{"lb_connect4", "lb_connect6", "lb_tc_in"}, true},
                                 {{"lb_connect4", "lb_connect6", "lb_pod_out"}, true},
                                 {{"lb_connect4", "lb_connect6", "lb_tc_out", "lb_pod_out"}, false}};
  for (const auto& row : rows) {
    Kernel kernel;
    for (const auto& name : row.refused) {
      kernel.dislikes.push_back({name, {}});
    }
    const auto why = nothing_served(programs, kernel.accept());
    CHECK(why.empty() == row.serves);
    if (!row.serves) {
      CHECK(why ==
            "the kernel refuses every program by which this node could be served, first lb_connect4 (R4 "
            "invalid "
            "zero-sized read)");
    }
  }
  // Programs that the options do not choose serve nothing.
  Kernel kernel{.dislikes = {{"lb_connect4", {}}}, .chosen = {"lb_connect4"}};
  CHECK_FALSE(nothing_served(kernel.chosen, kernel.accept()).empty());
}

}  // namespace lb::agent
