// SPDX-License-Identifier: Apache-2.0
// Loads the floor programs and runs them by BPF_PROG_TEST_RUN.
#include "bench/floor.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace lb::bench::skeleton {
#include "bpf/floor.skel.h"
}

namespace lb::bench {
namespace {

using test::Bytes;
using test::Hook;
using test::Tuple;

std::uint32_t fold(std::uint64_t sum) {
  while (sum > 0xffffffff) {
    sum = (sum & 0xffffffff) + (sum >> 32);
  }
  return static_cast<std::uint32_t>(sum);
}

/// The one's complement difference of two byte ranges, in 16-bit words.
std::uint64_t difference(const std::uint8_t* from, const std::uint8_t* to, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes; at += 2) {
    std::uint16_t one = 0;
    std::uint16_t other = 0;
    std::memcpy(&one, from + at, 2);
    std::memcpy(&other, to + at, 2);
    sum += static_cast<std::uint16_t>(~one) + std::uint64_t{other};
  }
  return sum;
}

/// Addresses and ports as in a packet, which is also how the maps' keys begin.
Bytes key_of(const Tuple& tuple) {
  const std::ptrdiff_t skip = tuple.family == 4 ? 12 : 0;
  Bytes key;
  for (const auto* end : {&tuple.source, &tuple.destination}) {
    key.insert(key.end(), end->address.begin() + skip, end->address.end());
  }
  for (const auto port : {tuple.source.port, tuple.destination.port}) {
    key.push_back(static_cast<std::uint8_t>(port >> 8));
    key.push_back(static_cast<std::uint8_t>(port & 0xff));
  }
  key.insert(key.end(), {6, 0, 0, 0});
  return key;
}

/// The default device of a test run's frame.
constexpr std::uint32_t loopback = 1;

/// The return code for a packet that the program recognises.
std::uint32_t verdict_of(Floor floor, Hook hook) {
  if (hook == Hook::xdp) {
    return floor == Floor::send ? std::uint32_t{XDP_REDIRECT} : std::uint32_t{XDP_TX};
  }
  return floor == Floor::send ? std::uint32_t{TC_ACT_REDIRECT} : std::uint32_t{TC_ACT_STOLEN};
}

void append(Bytes& bytes, std::uint32_t value) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(value));
}

}  // namespace

struct Floors::Skeleton {
  skeleton::floor* raw = skeleton::floor__open_and_load();
  Skeleton() {
    if (raw == nullptr) {
      throw std::runtime_error("the kernel refused the floor programs");
    }
  }
  Skeleton(const Skeleton&) = delete;
  Skeleton& operator=(const Skeleton&) = delete;
  ~Skeleton() { skeleton::floor__destroy(raw); }
};

Floors::Floors(const Tuple& one, const Tuple& other) : skeleton_(std::make_unique<Skeleton>()) {
  add(one, other);
  add(other, one);
}

Floors::~Floors() = default;

void Floors::add(const Tuple& from, const Tuple& to) {
  const auto key = key_of(from);
  auto value = key_of(to);
  const std::size_t addresses = from.family == 4 ? 8 : 32;
  const auto moved = difference(key.data(), value.data(), addresses);
  const auto all = moved + difference(key.data() + addresses, value.data() + addresses, 4);
  if (from.family == 4) {
    append(value, fold(moved));
  }
  append(value, fold(all));
  const auto* map = from.family == 4 ? skeleton_->raw->maps.floor_flows4 : skeleton_->raw->maps.floor_flows6;
  if (bpf_map__value_size(map) != value.size() || bpf_map__key_size(map) != key.size() ||
      bpf_map_update_elem(bpf_map__fd(map), key.data(), value.data(), BPF_ANY) != 0) {
    throw std::runtime_error("the floor's map does not take its flow");
  }
}

const bpf_program* Floors::program(Floor floor, Hook hook) const {
  const auto& programs = skeleton_->raw->progs;
  const bool xdp = hook == Hook::xdp;
  switch (floor) {
    case Floor::parse:
      return xdp ? programs.floor_xdp_parse : programs.floor_tc_parse;
    case Floor::rewrite:
      return xdp ? programs.floor_xdp : programs.floor_tc;
    case Floor::send:
      return xdp ? programs.floor_xdp_send : programs.floor_tc_send;
    case Floor::insert:
      return xdp ? programs.floor_xdp_insert : programs.floor_tc_insert;
  }
  throw std::logic_error("no such floor");
}

void Floors::attach(Floor floor, std::uint32_t device) {
  test::attach_xdp(device, bpf_program__fd(program(floor, Hook::xdp)));
  const auto* ports = skeleton_->raw->maps.floor_ports;
  if (bpf_map_update_elem(bpf_map__fd(ports), &loopback, &device, BPF_ANY) != 0) {
    throw std::runtime_error("the floor's map does not take its device");
  }
}

std::uint32_t Floors::run(Floor floor, Hook hook, const Bytes& packet, std::uint32_t repeat) {
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  options.data_in = packet.data();
  options.data_size_in = static_cast<std::uint32_t>(packet.size());
  options.repeat = static_cast<int>(repeat);
  if (bpf_prog_test_run_opts(bpf_program__fd(program(floor, hook)), &options) != 0) {
    throw std::runtime_error(std::strerror(errno));
  }
  return options.retval == verdict_of(floor, hook) ? options.duration : 0;
}

}  // namespace lb::bench
