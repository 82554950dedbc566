// SPDX-License-Identifier: Apache-2.0
// Loads the checker with a test's maps and runs it in a thread.
#include "tests/prog/publish/lab.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "maps/abi/choices.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "bpf/publish.skel.h"
#pragma GCC diagnostic pop

namespace lb::tables_test {

namespace {

constexpr int selections_per_call = 32 * 200;

void keep_to(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

void keep_off(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned at = 0; at < std::thread::hardware_concurrency(); ++at) {
    if (at != processor) {
      CPU_SET(at, &set);
    }
  }
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

void reuse(bpf_map* map, int fd) {
  if (bpf_map__reuse_fd(map, fd) != 0) {
    throw std::runtime_error("the checker cannot use a map of the test");
  }
}

}  // namespace

std::string Counted::text() const {
  return fmt::format("{} selections: {} misses, {} strangers, {} torn, {} untimely", selections, misses,
                     strangers, torn, untimely);
}

struct SelectionChecker::Inside {
  publish* skeleton = nullptr;
  std::jthread reader;

  void run(const std::stop_token& stop) const {
    keep_to(1);
    std::array<std::uint8_t, 64> packet{};
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.data_in = packet.data();
    options.data_size_in = packet.size();
    options.repeat = skeleton->bss->held > 0 ? 1 : selections_per_call / 32;
    const int program = bpf_program__fd(skeleton->progs.lb_checker);
    while (!stop.stop_requested()) {
      if (bpf_prog_test_run_opts(program, &options) != 0) {
        std::abort();
      }
    }
  }
};

SelectionChecker::SelectionChecker(const RealMaps& maps, CheckerOptions options)
    : inside_(std::make_unique<Inside>()) {
  if (std::thread::hardware_concurrency() < 2) {
    throw std::runtime_error("a reader and a writer need two processors");
  }
  publish* skeleton = publish__open();
  if (skeleton == nullptr) {
    throw std::runtime_error("the checker cannot be opened");
  }
  inside_->skeleton = skeleton;
  reuse(skeleton->maps.lb_frontends, maps.frontends.fd());
  reuse(skeleton->maps.lb_addresses, maps.addresses.fd());
  reuse(skeleton->maps.lb_services, maps.services.fd());
  reuse(skeleton->maps.lb_slots, maps.slots.fd());
  reuse(skeleton->maps.lb_backends, maps.backends.fd());
  skeleton->bss->held = options.held;
  skeleton->bss->modulus = options.modulus;
  if (publish__load(skeleton) != 0) {
    throw std::runtime_error("the checker cannot be loaded");
  }
}

SelectionChecker::~SelectionChecker() {
  inside_->reader.request_stop();
  if (inside_->reader.joinable()) {
    inside_->reader.join();
  }
  publish__destroy(inside_->skeleton);
}

void SelectionChecker::begin() {
  keep_off(1);
  inside_->reader = std::jthread([this](const std::stop_token& stop) { inside_->run(stop); });
}

void SelectionChecker::starts(std::uint32_t service, std::uint32_t generation) {
  std::atomic_ref(inside_->skeleton->bss->started[service]).store(generation, std::memory_order_seq_cst);
}

void SelectionChecker::shown(std::uint32_t service, std::uint32_t generation) {
  std::atomic_ref(inside_->skeleton->bss->shown[service]).store(generation, std::memory_order_seq_cst);
}

Counted SelectionChecker::counted() const {
  const auto& found = inside_->skeleton->bss->checker;
  const auto read = [](const auto& field) {
    return std::uint64_t{*const_cast<const volatile std::remove_reference_t<decltype(field)>*>(&field)};
  };
  return {.selections = read(found.selections),
          .misses = read(found.misses),
          .strangers = read(found.strangers),
          .torn = read(found.torn),
          .untimely = read(found.untimely)};
}

lb_backend tagged_backend(std::uint32_t service, std::uint32_t generation, std::uint32_t index) {
  lb_backend backend{};
  const std::array<std::uint32_t, 4> words{generation, service, ((generation + 1) * 0x9e3779b1U) ^ service,
                                           index};
  static_assert(sizeof(words) == sizeof(backend.address));
  std::memcpy(static_cast<void*>(backend.address), words.data(), sizeof(words));
  backend.port = static_cast<std::uint16_t>(generation);
  backend.in_cluster = LB_YES;
  backend.serving = LB_YES;
  backend.weight = 1;
  return backend;
}

std::shared_ptr<agent::ServicePortPlan> tagged_plan(std::uint32_t service, std::uint32_t generation,
                                                    std::uint32_t count) {
  auto plan = std::make_shared<agent::ServicePortPlan>();
  plan->key.name = fmt::format("default/s{}", service);
  agent::FrontendPlan frontend{.address = {}, .port = 80, .kind = LB_CLUSTER_IP};
  frontend.address.bytes[15] = static_cast<std::uint8_t>(1 + service);
  plan->frontends.push_back(frontend);
  std::vector<agent::BackendPlan> backends(count);
  for (std::uint32_t index = 0; index < count; ++index) {
    const lb_backend made = tagged_backend(service, generation, index);
    agent::BackendPlan& backend = backends[index];
    std::memcpy(backend.address.bytes.data(), static_cast<const void*>(made.address), sizeof(made.address));
    backend.port = made.port;
    backend.in_cluster = true;
    backend.serving = true;
  }
  plan->backends = backends;
  return plan;
}

agent::PlanChange tagged_change(std::uint32_t service, std::uint32_t generation, std::uint32_t count) {
  auto plan = tagged_plan(service, generation, count);
  return {.service = plan->key.name, .ports = {std::move(plan)}};
}

}  // namespace lb::tables_test
