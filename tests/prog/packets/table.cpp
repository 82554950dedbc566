// SPDX-License-Identifier: Apache-2.0
// Reads and runs tables of packets; the format is described in fixtures/generate.py.
#include "tests/prog/packets/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "tests/lib/seed.hpp"
#include "tests/prog/lib/two_cores.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/decode.hpp"
#include "tests/prog/packets/reference.hpp"

namespace lb::test {
namespace {

constexpr char sum_placeholder = 'z';
constexpr std::uint32_t flood = 256;

/// More packets than any limit per second.
constexpr int storm = 1500;
constexpr auto longest_wait = std::chrono::seconds(5);

bool is_placeholder(char c) { return c > 'f' && c <= 'z'; }

// ---- Reading. ----

void read_settings(const Words& words, Settings& settings) {
  const auto number = [&words](std::size_t at) {
    return at < words.size() ? static_cast<std::uint32_t>(std::stoul(words[at])) : 0U;
  };
  const auto port = [&number](std::size_t at) { return static_cast<std::uint16_t>(number(at)); };
  auto& config = settings.config;
  if (words.at(1) == "ports") {
    config.first_port = port(2), config.last_port = port(3);
    config.high_first_port = port(4), config.high_last_port = port(5);
  } else if (words[1] == "flows") {
    settings.flows = number(2);
  } else if (words[1] == "unassured") {
    settings.unassured = number(2);
  } else if (words[1] == "orphaned") {
    config.orphaned_after = number(2);
  } else if (words[1] == "refusing") {
    settings.refusing = true;
  } else if (words[1] == "without") {
    const auto off = [&words](const char* name) {
      return std::ranges::find(words, name) != words.end() ? LB_NO : LB_YES;
    };
    config.fib_source = off("fib_source");
    config.fib_mark = off("fib_mark");
    config.csum_ipv6 = off("csum_ipv6");
    config.ct_lookup = off("ct_lookup");
    config.skb_sums = off("skb_sums");
    settings.choices.egress_verdicts = off("egress_verdicts");
  } else {
    throw std::runtime_error("no such setting: " + words[1]);
  }
}

PacketTest read_test(const Words& words) {
  PacketTest test;
  for (const auto hook : hooks) {
    if (hook_name(hook) == words.at(1)) {
      test.hook = hook;
    }
  }
  test.device = words.at(2);
  test.code = words.at(3);
  test.outcomes = words.at(4);
  test.verb = words[0];
  return test;
}

void read_line(const Words& words, int line, Table& table) {
  const auto& verb = words[0];
  if (verb == "settings") {
    table.settings_text += fmt::format("{}\n", fmt::join(words, " "));
    return read_settings(words, table.settings);
  }
  if (verb == "case") {
    table.cases.push_back({fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " ")), {}});
    return;
  }
  auto& steps = table.cases.at(table.cases.size() - 1).steps;
  if (verb == "in") {
    steps.back().test.in = steps.back().test.out = words.at(1);
  } else if (verb == "out") {
    steps.back().test.out = words.at(1);
  } else if (verb == "do") {
    steps.push_back({line, Words(words.begin() + 1, words.end()), {}});
  } else if (verb == "tables") {
    steps.push_back({line, words, {}});
  } else {
    steps.push_back({line, {}, read_test(words)});
  }
}

// ---- Placeholders. ----

std::uint8_t digit(char c) { return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

/// Assigns unknown placeholders the ports in the output packet.
void bind(const std::string& text, const Bytes& packet, Placeholders& placeholders) {
  for (std::size_t at = 0; at + 4 <= text.size() && (at / 2) + 2 <= packet.size(); at += 2) {
    if (is_placeholder(text[at]) && text[at] != sum_placeholder) {
      placeholders.try_emplace(text[at], read16(packet, at / 2));
      at += 2;
    }
  }
}

// ---- Running. ----

/// The minimum length that the kernel accepts in a test run: for tc a whole IP header.
std::size_t shortest(Hook hook, const Bytes& packet) {
  if (hook == Hook::xdp) {
    return 15;
  }
  return read16(packet, 12) == 0x0800 ? 14 + 20 : 14 + 40;
}

constexpr std::uint32_t tc_next = 0xffffffff;

std::string code_name(Hook hook, std::uint32_t code) {
  if (hook == Hook::xdp) {
    return code == 2 ? "pass" : code == 4 ? "redirect" : code == 1 ? "drop" : fmt::format("{}", code);
  }
  return code == tc_next ? "next" : code == 7 ? "redirect" : code == 2 ? "shot" : fmt::format("{}", code);
}

/// Whether the counts are those of `outcomes`, name by name and number by number.
bool counts_match(const std::string& outcomes, Counts counts) {
  std::size_t start = 0;
  while (start <= outcomes.size()) {
    const auto stop = std::min(outcomes.find('+', start), outcomes.size());
    auto name = outcomes.substr(start, stop - start);
    const bool any = name.ends_with('*');
    if (any) {
      name.pop_back();
    }
    const auto outcome = outcome_named(name);
    if (!outcome) {
      throw std::runtime_error("no such outcome: " + name);
    }
    if (!any && counts[*outcome] == 0) {
      return false;
    }
    counts[*outcome] = any ? 0 : counts[*outcome] - 1;
    start = stop + 1;
  }
  return std::ranges::all_of(counts, [](auto count) { return count == 0; });
}

Bytes without_ethernet(const Bytes& packet) { return {packet.begin() + 14, packet.end()}; }

/// Replies and copies of another length, which may quote a truncated packet.
bool changes_length(const PacketTest& test) { return test.in.size() != test.out.size(); }

class Runner {
 public:
  Runner(World& world, std::uint32_t skb_flags) : world_(world), skb_flags_(skb_flags) {}

  TableResult run(const std::vector<Case>& cases) {
    for (const auto& one : cases) {
      world_.reset();
      placeholders_.clear();
      for (const auto& step : one.steps) {
        auto problem = run_step(step);
        if (!problem) {
          continue;
        }
        result_.failures.push_back(fmt::format("{}\n  line {}: {}", one.name, step.line, *problem));
        break;
      }
    }
    return std::move(result_);
  }

 private:
  using Problem = std::optional<std::string>;

  Problem run_step(const Step& step) {
    if (step.words.empty()) {
      return run_test(step.test);
    }
    if (step.words[0] == "tables") {
      return check_tables(step.words);
    }
    world_.change(step.words);
    return std::nullopt;
  }

  Problem run_test(const PacketTest& test) {
    if (test.verb == "prefixes") {
      return run_prefixes(test);
    }
    if (test.verb == "through") {
      return run_through(test);
    }
    auto problem = run_packet(test);
    for (int sent = 1; test.verb == "storm" && !problem && sent < storm; ++sent) {
      problem = run_packet(test);
    }
    const auto deadline = std::chrono::steady_clock::now() + longest_wait;
    while (test.verb == "until" && problem && std::chrono::steady_clock::now() < deadline) {
      problem = run_packet(test);
    }
    return problem;
  }

  Problem check_tables(const Words& words) const {
    const auto [flows, unassured] = world_.entries();
    const auto found = fmt::format("tables {} {}", flows, unassured);
    const auto expected = fmt::format("{}", fmt::join(words, " "));
    return found == expected ? Problem() : fmt::format("expected {}, found {}", expected, found);
  }

  Verdict try_once(const PacketTest& test, const Bytes& packet) {
    Run run;
    run.hook = test.hook;
    run.device = world_.device(test.device);
    if (test.verb == "flood") {
      run.repeat = flood;
    }
    if (test.verb == "forwarded") {
      run.came_by = world_.device("pod0");
    }
    if (test.hook != Hook::xdp && !changes_length(test)) {
      run.flags = skb_flags_;
    }
    auto verdict = world_.programs().run(run, packet);
    ++result_.packets;
    for (std::size_t at = 0; at < verdict.counts.size(); ++at) {
      result_.counts[at] += verdict.counts[at];
    }
    return verdict;
  }

  static Problem judge(const PacketTest& test, const Verdict& verdict) {
    if (verdict.error != 0) {
      return fmt::format("the kernel did not run it: {}", std::strerror(verdict.error));
    }
    if (!counts_match(test.outcomes, verdict.counts)) {
      return fmt::format("expected {}, counted {}", test.outcomes, counts_text(verdict.counts));
    }
    const auto code = code_name(test.hook, verdict.code);
    return code == test.code ? Problem() : fmt::format("expected {}, returned {}", test.code, code);
  }

  Problem run_packet(const PacketTest& test) {
    const auto verdict = try_once(test, packet_of(test.in, placeholders_));
    if (auto problem = judge(test, verdict)) {
      return problem;
    }
    bind(test.out, verdict.packet, placeholders_);
    const auto expected = packet_of(test.out, placeholders_);
    if (expected == verdict.packet) {
      return std::nullopt;
    }
    return fmt::format("the packet is not what it should be (- expected, + came)\n{}  in {}",
                       compare_packets(expected, verdict.packet), hex(packet_of(test.in, placeholders_)));
  }

  Verdict try_both(const PacketTest& test, const Bytes& packet) {
    auto verdict = try_once(test, packet);
    if (test.hook != Hook::xdp || code_name(test.hook, verdict.code) != "pass") {
      return verdict;
    }
    auto left = test;
    left.hook = Hook::tc_in;
    return try_once(left, packet);
  }

  /// One packet through XDP and, where XDP leaves it, through tc. What is counted does not matter, nor which
  /// of the two sends it, so link-layer addresses are not compared.
  Problem run_through(const PacketTest& test) {
    const auto packet = packet_of(test.in, placeholders_);
    const auto verdict = try_both(test, packet);
    if (verdict.error != 0) {
      return fmt::format("the kernel did not run it: {}", std::strerror(verdict.error));
    }
    if (verdict.packet.size() != packet.size()) {
      return "answered; counted " + counts_text(verdict.counts);
    }
    bind(test.out, verdict.packet, placeholders_);
    const bool translated =
        without_ethernet(verdict.packet) == without_ethernet(packet_of(test.out, placeholders_));
    const auto* found = verdict.packet == packet ? "untouched" : translated ? "translated" : "something else";
    if (test.code == found) {
      return std::nullopt;
    }
    return fmt::format("expected {}, found {}; counted {}", test.code, found, counts_text(verdict.counts));
  }

  Problem run_prefixes(const PacketTest& test) {
    const auto whole = packet_of(test.in, placeholders_);
    for (auto size = shortest(test.hook, whole); size < whole.size(); ++size) {
      const Bytes packet(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const auto verdict = try_once(test, packet);
      if (auto problem = judge(test, verdict)) {
        return fmt::format("{} bytes: {}", size, *problem);
      }
      if (verdict.packet != packet) {
        return fmt::format("{} bytes: the packet was changed", size);
      }
    }
    return std::nullopt;
  }

  World& world_;
  std::uint32_t skb_flags_;
  Placeholders placeholders_;
  TableResult result_;
};

}  // namespace

std::vector<std::string> table_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures())) {
    if (entry.path().extension() == ".table") {
      files.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

Table read_table(const std::string& file) {
  std::ifstream stream(fixtures() + file);
  if (!stream) {
    throw std::runtime_error("cannot read " + file);
  }
  Table table;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const auto words = words_of(line);
    if (!words.empty()) {
      read_line(words, number, table);
    }
  }
  return table;
}

std::vector<NamedTable> tables_by_settings() {
  std::vector<NamedTable> tables;
  // An emulated processor has time for a share of the cases, other ones in each run.
  const char* share = std::getenv("SLUICE_CASES_SHARE");
  const std::size_t every = share != nullptr ? std::stoul(share) : 1;
  std::size_t at = 0;
  if (every > 1) {
    at = seed();
    fmt::print("one of {} cases; SLUICE_SEED={}\n", every, at);
  }
  for (const auto& file : table_files()) {
    auto table = read_table(file);
    std::erase_if(table.cases, [&](const Case&) { return at++ % every != 0; });
    if (!table.cases.empty()) {
      tables.push_back({file, std::move(table)});
    }
  }
  std::ranges::sort(tables, {},
                    [](const auto& each) { return std::tie(each.table.settings_text, each.file); });
  return tables;
}

Bytes packet_of(const std::string& text, const Placeholders& placeholders) {
  Bytes packet(text.size() / 2);
  bool summed = false;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    if (!is_placeholder(text[at])) {
      packet[at / 2] = static_cast<std::uint8_t>(digit(text[at]) << 4 | digit(text[at + 1]));
      continue;
    }
    summed = summed || text[at] == sum_placeholder;
    if (text[at] != sum_placeholder) {
      write16(packet, at / 2, placeholders.at(text[at]));
    }
    at += 2;
  }
  const auto layout = summed ? layout_of(packet) : std::nullopt;
  if (layout) {
    write_transport_sum(packet, *layout);
  }
  return packet;
}

// The programs limit answers per CPU and second: a storm that is answered again by another CPU leaves the
// first one's limit reached, which later cases would meet there.
TableResult TableRunner::run(const Table& table, std::uint32_t skb_flags) {
  const OnOneCpu here;
  if (!world_ || settings_ != table.settings_text) {
    world_.reset();  // two worlds cannot share a namespace
    world_ = std::make_unique<World>(table.settings);
    settings_ = table.settings_text;
  }
  return Runner(*world_, skb_flags).run(table.cases);
}

}  // namespace lb::test
