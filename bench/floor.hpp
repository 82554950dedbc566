// SPDX-License-Identifier: Apache-2.0
// The loaded floor programs of floor.bpf.c, with one flow that sends a packet back and forth.
#pragma once

#include <memory>

#include "tests/prog/packets/build.hpp"

struct bpf_program;

namespace lb::bench {

enum class Floor : std::uint8_t {
  parse,
  rewrite,  ///< parse, one lookup, rewrite
  send,     ///< like `rewrite`, plus a counter and a redirect
  insert    ///< one new key in a table like that of unassured flows
};

class Floors {
 public:
  /// Packets of `one` are rewritten to `other`, and those of `other` to `one`.
  Floors(const test::Tuple& one, const test::Tuple& other);
  Floors(const Floors&) = delete;
  Floors& operator=(const Floors&) = delete;
  ~Floors();

  /// Attaches the floor's XDP program to a device; see Mirror in programs.cpp.
  void attach(Floor floor, std::uint32_t device);
  /// Mean nanoseconds of one run; 0 if the program did not recognise the packet. `hook` is xdp or tc_in.
  [[nodiscard]] std::uint32_t run(Floor floor, test::Hook hook, const test::Bytes& packet,
                                  std::uint32_t repeat);

 private:
  struct Skeleton;
  [[nodiscard]] const bpf_program* program(Floor floor, test::Hook hook) const;
  void add(const test::Tuple& from, const test::Tuple& to);
  std::unique_ptr<Skeleton> skeleton_;
};

}  // namespace lb::bench
