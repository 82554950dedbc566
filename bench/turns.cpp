// SPDX-License-Identifier: Apache-2.0
// The effect of the worst objects that an API server accepts on the agent's event loop: the longest step, and
// how long a change of a small service waits meanwhile. Model, pacer and tables, with real kernel maps. Run
// as root.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/plan/pacer.hpp"
#include "agent/tables/tables.hpp"
#include "bench/rows.hpp"
#include "k8s/encoding/decode.hpp"
#include "tests/prog/lib/real_maps.hpp"

namespace {

using namespace lb::tables_test;
using lb::k8s::Address;
using lb::k8s::EndpointSlice;
using lb::k8s::Service;

constexpr const char* part = "turns";
constexpr std::uint64_t mebibytes = 2048;
constexpr double max_step = 10;  ///< ms
constexpr double max_wait = 100;
/// Two services with their limit of frontends (REL-155), and the small ones.
constexpr std::uint64_t max_frontends_in_table = 2 * lb::agent::default_service_frontends + 8;

Address address(const std::string& text) { return Address::parse(text).value(); }

Address numbered(unsigned net, std::size_t number) {
  return address(fmt::format("{}.{}.{}.{}", net, number >> 16U, (number >> 8U) & 255U, number & 255U));
}

Service service(const std::string& name, std::size_t ports, std::size_t cluster_ip) {
  Service made;
  made.key = {"default", name};
  made.created = static_cast<std::int64_t>(cluster_ip);
  made.cluster_ips = {numbered(11, cluster_ip)};
  for (std::size_t at = 0; at < ports; ++at) {
    made.ports.push_back(
        {fmt::format("p{:04}", at), lb::k8s::Protocol::tcp, static_cast<std::uint16_t>(1000 + at), 0});
  }
  return made;
}

Service with_addresses(Service made, std::size_t addresses) {
  for (std::size_t at = 0; at < addresses; ++at) {
    made.external_ips.push_back(numbered(198, at));
  }
  return made;
}

EndpointSlice slice(const std::string& of, std::size_t number, std::size_t ports, std::size_t endpoints) {
  EndpointSlice made;
  made.key = {"default", fmt::format("{}-{}", of, number)};
  made.service = of;
  for (std::size_t at = 0; at < ports; ++at) {
    made.ports.push_back(
        {fmt::format("p{:04}", at), lb::k8s::Protocol::tcp, static_cast<std::uint16_t>(8000 + at)});
  }
  for (std::size_t at = 0; at < endpoints; ++at) {
    lb::k8s::Endpoint one;
    one.address = numbered(10, number * endpoints + at);
    one.node_name = fmt::format("node-{}", at % 500);
    made.endpoints.push_back(std::move(one));
  }
  return made;
}

/// A queue of posted steps, each of which is timed, by this thread's CPU time, because the machine may be
/// shared.
class Loop {
 public:
  using Step = std::function<void()>;
  void post(Step step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] bool is_idle() const { return steps_.empty(); }
  void run_one() {
    const auto step = std::move(steps_.front());
    steps_.pop_front();
    const auto begin = lb::agent::thread_time();
    step();
    const auto took = std::chrono::duration<double, std::milli>(lb::agent::thread_time() - begin).count();
    longest_ = std::max(longest_, took);
    total_ += took;
  }
  [[nodiscard]] double total() const { return total_; }
  [[nodiscard]] double longest() const { return longest_; }
  void forget() { longest_ = total_ = 0; }

 private:
  std::deque<Step> steps_;
  double longest_ = 0;
  double total_ = 0;
};

/// An agent without hooks, and a small service that is changed again as soon as its last change is written.
class Bench {
 public:
  enum class Begins : std::uint8_t { synced, later };

  explicit Bench(Begins begins = Begins::synced, lb::agent::PlanOptions options = {})
      : cluster_("node-1", std::move(options), pacer_, {}) {
    cluster_.take_turns([this] { loop_.post([this] { cluster_.take_turn(); }); });
    pacer_.pass_first(lb::agent::FirstBatch::in_parts);
    if (begins == Begins::synced) {
      cluster_.synced();
    }
  }

  using Change = std::function<void(lb::agent::Cluster&)>;

  void measure(const std::string& what, const Change& change) { measure(what, std::vector{change}); }
  /// Further changes come before the former ones are written.
  void measure(const std::string& what, const std::vector<Change>& changes) {
    constexpr std::size_t steps_between = 40;
    loop_.forget();
    longest_wait_ = 0;
    auto next = changes.begin();
    std::uint64_t most = 0;
    for (std::size_t step = 0; next != changes.end() || !loop_.is_idle(); ++step) {
      if (next != changes.end() && step % steps_between == 0) {
        post(*next++);
      }
      if (step == 0) {
        change_small();
      }
      calls_.run();
      if (!loop_.is_idle()) {
        loop_.run_one();
      }
      if (!small_waits_ && !loop_.is_idle()) {
        change_small();
      }
      most = std::max(most, tables_.fills().front().used);
    }
    // What does not fit is never complete.
    while (!tables_.complete() && !tables_.retry_in()) {
      calls_.wait();
    }
    const bool missed =
        loop_.longest() > max_step || longest_wait_ > max_wait || most > max_frontends_in_table;
    missed_ = missed_ || missed;
    fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} |\n", what, loop_.total(), loop_.longest(), longest_wait_);
    lb::bench::keep({part, what + ": longest step", "ms", lb::bench::single(loop_.longest())});
    lb::bench::keep({part, what + ": a small service waits", "ms", lb::bench::single(longest_wait_)});
  }
  /// Applies a change without timing it.
  void prepare(const std::function<void(lb::agent::Cluster&)>& change) {
    change(cluster_);
    cluster_.flush();
    while (!loop_.is_idle()) {
      loop_.run_one();
    }
  }
  [[nodiscard]] bool missed() const { return missed_; }

 private:
  void post(const Change& change) {
    loop_.post([&] {
      change(cluster_);
      cluster_.flush();
    });
  }

  void change_small() {
    small_waits_ = true;
    const double begin = loop_.total();
    loop_.post([this, begin] {
      auto small = service("small", 1, 1U << 16U);
      small.cluster_ips = {numbered(12, ++generation_)};
      cluster_.upsert(std::move(small));
      cluster_.flush();
      longest_wait_ = std::max(longest_wait_, loop_.total() - begin);
      small_waits_ = false;
    });
  }

  Calls calls_;
  RealMaps maps_{{.frontends = LB_MAX_FRONTENDS,
                  .services = LB_MAX_SERVICES,
                  .backends = 1U << 22U,
                  .slots = 1U << 22U,
                  .ranges = LB_MAX_RANGES}};
  std::unique_ptr<lb::maps::KernelGrace> grace_ = lb::maps::KernelGrace::open(calls_.post()).value();
  NothingNamed sweeper_{calls_.post()};
  lb::agent::Tables tables_{maps_.store(), *grace_, sweeper_, [](const lb::k8s::Complaint& complaint) {
                              fmt::print(stderr, "{}\n", complaint.reason);
                            }};
  Loop loop_;
  lb::agent::Pacer pacer_{tables_, [this] { loop_.post([this] { pacer_.take_turn(); }); }};
  lb::agent::Cluster cluster_;
  std::size_t generation_ = 0;
  double longest_wait_ = 0;
  bool small_waits_ = false;
  bool missed_ = false;
};

void addresses(Bench& bench) {
  const auto large = with_addresses(service("large", 30, 1), 70'000);
  bench.measure("70,000 external IPs, 30 ports: comes", [&](auto& cluster) { cluster.upsert(large); });
  auto changed = large;
  changed.external_ips.erase(changed.external_ips.begin());
  bench.measure("and one address goes", [&](auto& cluster) { cluster.upsert(changed); });
  auto rival = with_addresses(service("rival", 30, 0), 70'000);
  rival.created = 0;
  bench.measure("a younger one with the same addresses comes", [&](auto& cluster) { cluster.upsert(rival); });
  bench.measure("the older one goes", [&](auto& cluster) { cluster.erase_service({"default", "large"}); });
  bench.measure("the other goes", [&](auto& cluster) { cluster.erase_service({"default", "rival"}); });
}

void ports(Bench& bench) {
  bench.measure("4,096 ports, 2 addresses: comes",
                [&](auto& cluster) { cluster.upsert(with_addresses(service("ports", 4096, 2), 2)); });
  bench.measure("gets 10 endpoints", [&](auto& cluster) { cluster.upsert(slice("ports", 0, 100, 10)); });
  bench.measure("goes", [&](auto& cluster) { cluster.erase_service({"default", "ports"}); });
}

void ranges(Bench& bench) {
  auto made = service("ranges", 30, 3);
  made.load_balancer_ips = {numbered(13, 1)};
  for (std::size_t at = 0; at < 60'000; ++at) {
    made.source_ranges.push_back({numbered(14, at), 128});
  }
  bench.measure("60,000 source ranges, 30 ports: comes", [&](auto& cluster) { cluster.upsert(made); });
  bench.measure("goes", [&](auto& cluster) { cluster.erase_service({"default", "ranges"}); });
}

void endpoints(Bench& bench, std::size_t slices, std::size_t ports, const std::string& what) {
  for (std::size_t at = 1; at < slices; ++at) {
    bench.prepare([&](auto& cluster) { cluster.upsert(slice("many", at, ports, 1000)); });
  }
  bench.measure(what + ": a slice without its Service",
                [&](auto& cluster) { cluster.upsert(slice("many", 0, ports, 1000)); });
  bench.measure(what + ": its Service comes",
                [&](auto& cluster) { cluster.upsert(service("many", ports, 4)); });
  bench.measure("one endpoint changes", [&](auto& cluster) {
    auto changed = slice("many", 0, ports, 1000);
    changed.endpoints.front().address = numbered(15, 1);
    cluster.upsert(std::move(changed));
  });
  bench.measure("the Service goes", [&](auto& cluster) { cluster.erase_service({"default", "many"}); });
  for (std::size_t at = 0; at < slices; ++at) {
    bench.prepare([&](auto& cluster) { cluster.erase_slice({"default", fmt::format("many-{}", at)}); });
  }
}

void ingresses(Bench& bench) {
  auto made = service("ingress", 2, 5);
  made.type = lb::k8s::ServiceType::load_balancer;
  for (std::size_t at = 0; at < 70'000; ++at) {
    made.load_balancer_ips.push_back(numbered(199, at));
  }
  bench.measure("70,000 ingress IPs, 2 ports: comes", [&](auto& cluster) { cluster.upsert(made); });
  made.load_balancer_ips.erase(made.load_balancer_ips.begin());
  bench.measure("and one address goes", [&](auto& cluster) { cluster.upsert(made); });
  bench.measure("goes", [&](auto& cluster) { cluster.erase_service({"default", "ingress"}); });
}

void hints(Bench& bench) {
  constexpr std::size_t slices = 100;
  for (std::size_t at = 0; at < slices; ++at) {
    auto hinted = slice("hinted", at, 1, 1000);
    for (std::size_t number = 0; number < hinted.endpoints.size(); ++number) {
      auto& endpoint = hinted.endpoints[number];
      endpoint.zone = fmt::format("zone-{}", number % 8);
      for (std::size_t zone = 0; zone < 8; ++zone) {
        endpoint.hint_zones.push_back(fmt::format("zone-{}", (number + zone) % 16));
      }
    }
    bench.prepare([&](auto& cluster) { cluster.upsert(hinted); });
  }
  bench.measure("100,000 endpoints with 8 hints each: the Service comes",
                [&](auto& cluster) { cluster.upsert(service("hinted", 1, 6)); });
  lb::k8s::Node own;
  own.name = "node-1";
  own.labels = {{std::string(lb::k8s::zone_label), "zone-3"}};
  bench.measure("and this node moves to another zone", [&](auto& cluster) { cluster.upsert(own); });
  bench.measure("the Service goes", [&](auto& cluster) { cluster.erase_service({"default", "hinted"}); });
  for (std::size_t at = 0; at < slices; ++at) {
    bench.prepare([&](auto& cluster) { cluster.erase_slice({"default", fmt::format("hinted-{}", at)}); });
  }
}

void own_node(Bench& bench) {
  lb::k8s::Node own;
  own.name = "node-1";
  for (std::size_t at = 0; at < 70'000; ++at) {
    own.internal_ips.push_back(numbered(16, at));
  }
  bench.measure("70,000 addresses of this Node: come", [&](auto& cluster) { cluster.upsert(own); });
  own.internal_ips.resize(1);
  bench.measure("and all but one go", [&](auto& cluster) { cluster.upsert(own); });
}

/// Decodes one object's text, in one step: no part of it can be deferred.
bool decoding(const std::string& what, const std::string& text, lb::k8s::Kind kind) {
  const auto decoder = lb::k8s::json_decoder(lb::k8s::Origin::api_server);
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const auto begin = lb::agent::thread_time();
    const auto decoded = decoder->decode(text, kind);
    times.push_back(std::chrono::duration<double, std::milli>(lb::agent::thread_time() - begin).count());
    if (decoded.result != lb::k8s::DecodeResult::object) {
      throw std::runtime_error(what + ": refused");
    }
  }
  const auto spread = lb::bench::spread_of(std::move(times));
  fmt::print("| {} | {:.1f} | {:.1f} | |\n", what, spread.value, spread.max);
  lb::bench::keep({part, what + ": longest step", "ms", spread});
  return spread.max > max_step;
}

std::string joined(std::size_t count, const std::function<std::string(std::size_t)>& item) {
  std::string text;
  for (std::size_t at = 0; at < count; ++at) {
    text += (at == 0 ? "" : ",") + item(at);
  }
  return text;
}

std::string service_text(const std::string& annotations, const std::string& addresses) {
  return R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"large","namespace":"default","annotations":{)" +
         annotations +
         R"(}},"spec":{"clusterIP":"11.0.0.1","ports":[{"protocol":"TCP","port":80}],"externalIPs":[)" +
         addresses + "]}}";
}

/// Objects as large as a server accepts: 1.5 MB.
bool decodings() {
  const auto addresses = joined(70'000, [](std::size_t at) { return '"' + numbered(198, at).text() + '"'; });
  const auto annotations =
      joined(30'000, [](std::size_t at) { return fmt::format(R"("a.example/{:05}":"{:020}")", at, at); });
  const auto endpoints = joined(1000, [](std::size_t at) {
    return fmt::format(
        R"({{"addresses":["{}"],"nodeName":"node-{}","zone":"a","hints":{{"forZones":[{{"name":"a"}}]}}}})",
        numbered(10, at).text(), at % 500);
  });
  const auto ports = joined(100, [](std::size_t at) {
    return fmt::format(R"({{"name":"p{:04}","port":{},"protocol":"TCP"}})", at, 8000 + at);
  });
  // The shortest texts of different addresses, unsorted: 1.5 MB of them.
  const auto shortest = joined(150'000, [](std::size_t at) {
    const auto shuffled = at * 40'503 % 150'000;
    return fmt::format(R"("{:x}::{:x}")", 1 + shuffled % 15, 4096 + shuffled / 15);
  });
  const auto node_addresses = joined(40'000, [](std::size_t at) {
    return fmt::format(R"({{"type":"InternalIP","address":"{}"}})", numbered(16, at).text());
  });
  bool missed =
      decoding("JSON: a Service of 70,000 external IPs", service_text("", addresses), lb::k8s::Kind::service);
  missed |=
      decoding("JSON: a Service of 150,000 external IPs", service_text("", shortest), lb::k8s::Kind::service);
  missed |=
      decoding("JSON: a Node of 40,000 addresses",
               R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1"},"status":{"addresses":[)" +
                   node_addresses + "]}}",
               lb::k8s::Kind::node);
  missed |= decoding("JSON: a Service of 30,000 annotations", service_text(annotations, ""),
                     lb::k8s::Kind::service);
  missed |= decoding(
      "JSON: a slice of 1,000 endpoints, 100 ports",
      R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"large","namespace":"default",)"
      R"("labels":{"kubernetes.io/service-name":"large"}},"addressType":"IPv4","ports":[)" +
          ports + R"(],"endpoints":[)" + endpoints + "]}",
      lb::k8s::Kind::slice);
  return missed;
}

/// Many Services that claim the same addresses and ports; each takes over those that an older one gives up.
void rivals(Bench& bench) {
  constexpr std::size_t services = 200;
  const auto rival = [](std::size_t at) {
    return with_addresses(service(fmt::format("rival{:03}", at), 30, 100 + at), 334);
  };
  for (std::size_t at = 0; at < services; ++at) {
    bench.prepare([&](auto& cluster) { cluster.upsert(rival(at)); });
  }
  bench.measure("200 services claim the same 10,000 frontends: the oldest goes",
                [&](auto& cluster) { cluster.erase_service(rival(0).key); });
  bench.measure("and comes again", [&](auto& cluster) { cluster.upsert(rival(0)); });
  auto young = rival(0);
  young.created = 1'000'000;
  bench.measure("and is made anew, the youngest", [&](auto& cluster) { cluster.upsert(young); });
  bench.measure("all of them go", [&](auto& cluster) {
    for (std::size_t at = 0; at < services; ++at) {
      cluster.erase_service(rival(at).key);
    }
  });
}

/// The health-check replies for external load balancers depend on the object and on the endpoints of this
/// node.
void local_endpoints(Bench& bench) {
  auto made = with_addresses(service("local", 1, 7), 70'000);
  made.type = lb::k8s::ServiceType::load_balancer;
  made.external_policy = lb::k8s::TrafficPolicy::local;
  made.health_check_node_port = 31'000;
  bench.prepare([&](auto& cluster) { cluster.upsert(made); });
  auto here = slice("local", 0, 1, 1000);
  for (auto& endpoint : here.endpoints) {
    endpoint.node_name = "node-1";
  }
  bench.prepare([&](auto& cluster) { cluster.upsert(here); });
  here.endpoints.pop_back();
  bench.measure("70,000 external IPs, health checks: an endpoint goes",
                [&](auto& cluster) { cluster.upsert(here); });
  bench.prepare([&](auto& cluster) { cluster.erase_service(made.key); });
  bench.prepare([&](auto& cluster) { cluster.erase_slice(here.key); });
}

/// A table of consistent selection takes a nanosecond for each backend and slot: 8 ms for each of these
/// ports.
void consistent(Bench& bench) {
  constexpr std::size_t ports = 64;
  auto made = service("hashed", ports, 8);
  auto endpoints = slice("hashed", 0, ports, 500);
  bench.prepare([&](auto& cluster) { cluster.upsert(endpoints); });
  bench.prepare([&](auto& cluster) { cluster.upsert(made); });
  made.selection = lb::k8s::Selection::consistent;
  bench.measure("64 ports of 500 endpoints: become consistent", [&](auto& cluster) { cluster.upsert(made); });
  bench.measure("and get an external IP", [&](auto& cluster) { cluster.upsert(with_addresses(made, 1)); });
  endpoints.endpoints.front().address = numbered(15, 2);
  bench.measure("and one endpoint changes", [&](auto& cluster) { cluster.upsert(endpoints); });
  bench.prepare([&](auto& cluster) { cluster.erase_service(made.key); });
  bench.prepare([&](auto& cluster) { cluster.erase_slice(endpoints.key); });
}

/// A Service within its limit that asks for other frontends all the time: what is in the table counts.
void changing(Bench& bench) {
  constexpr std::size_t addresses = 9900;
  const auto with = [](std::size_t first) {
    auto made = service("changing", 1, 9);
    for (std::size_t at = 0; at < addresses; ++at) {
      made.external_ips.push_back(numbered(198, first + at));
    }
    return made;
  };
  std::vector<Bench::Change> changes;
  changes.reserve(20);
  for (std::size_t round = 0; round < 20; ++round) {
    changes.emplace_back([made = with(round * addresses)](auto& cluster) { cluster.upsert(made); });
  }
  bench.measure("9,900 external IPs, 20 times others before the former are written", changes);
  bench.prepare([&](auto& cluster) { cluster.erase_service({"default", "changing"}); });
  changes.clear();
  for (std::size_t round = 0; round < 20; ++round) {
    auto made = service("ranges", 1, 9);
    made.load_balancer_ips = {numbered(13, 2)};
    for (std::size_t at = 0; at < addresses; ++at) {
      made.source_ranges.push_back({numbered(14, round * addresses + at), 128});
    }
    changes.emplace_back([made = std::move(made)](auto& cluster) { cluster.upsert(made); });
  }
  bench.measure("9,900 source ranges, likewise", changes);
  bench.prepare([&](auto& cluster) { cluster.erase_service({"default", "ranges"}); });
}

/// Services within their limits that fill the table of ranges together.
void many_ranges(Bench& bench) {
  constexpr std::size_t services = 7;
  constexpr std::size_t ranges = 9900;
  const auto numbered_service = [](std::size_t number) {
    auto made = service(fmt::format("ranges-{}", number), 1, 20 + number);
    made.load_balancer_ips = {numbered(13, 20 + number)};
    for (std::size_t at = 0; at < ranges; ++at) {
      made.source_ranges.push_back({numbered(14, number * ranges + at), 128});
    }
    return made;
  };
  std::vector<Service> made;
  made.reserve(services);
  for (std::size_t number = 0; number < services; ++number) {
    made.push_back(numbered_service(number));
  }
  bench.measure("7 Services of 9,900 source ranges: come", [&](auto& cluster) {
    for (const auto& each : made) {
      cluster.upsert(each);
    }
  });
  bench.measure("and go", [&](auto& cluster) {
    for (const auto& each : made) {
      cluster.erase_service(each.key);
    }
  });
}

/// What a file of manifests holds is reported 500 objects a turn.
void large_file(Bench& bench) {
  constexpr std::size_t services = 40'000;
  constexpr std::size_t of_a_turn = 500;
  const auto name_of = [](std::size_t number) { return fmt::format("file-{:05}", number); };
  std::vector<Bench::Change> come;
  std::vector<Bench::Change> go;
  come.reserve(services / of_a_turn);
  go.reserve(services / of_a_turn);
  for (std::size_t first = 0; first < services; first += of_a_turn) {
    come.emplace_back([name_of, first](auto& cluster) {
      for (std::size_t at = first; at < first + of_a_turn; ++at) {
        cluster.upsert(service(name_of(at), 1, 100 + at));
      }
    });
    go.emplace_back([name_of, first](auto& cluster) {
      for (std::size_t at = first; at < first + of_a_turn; ++at) {
        cluster.erase_service({"default", name_of(at)});
      }
    });
  }
  bench.measure("40,000 Services of one file, 500 a turn: come", come);
  bench.measure("and go", go);
}

/// Weights without a common divisor: their resolution gives way to a budget of slots.
void weights(Bench& bench, std::size_t ports, const std::string& what, std::uint8_t step) {
  constexpr std::size_t slices = 27;
  auto made = service("weighted", ports, 10);
  bench.prepare([&](auto& cluster) { cluster.upsert(made); });
  for (std::size_t at = 1; at < slices; ++at) {
    auto weighted = slice("weighted", at, ports, 1000);
    weighted.weight = static_cast<std::uint8_t>(100 - step * (at % 2));
    bench.prepare([&](auto& cluster) { cluster.upsert(weighted); });
  }
  auto last = slice("weighted", 0, ports, 1000);
  last.weight = 100;
  bench.measure(what + ": the last slice comes", [&](auto& cluster) { cluster.upsert(last); });
  last.weight = static_cast<std::uint8_t>(100 - step);
  bench.measure("and weighs less", [&](auto& cluster) { cluster.upsert(last); });
  bench.measure("the Service goes", [&](auto& cluster) { cluster.erase_service(made.key); });
  for (std::size_t at = 0; at < slices; ++at) {
    bench.prepare([&](auto& cluster) { cluster.erase_slice({"default", fmt::format("weighted-{}", at)}); });
  }
}

/// An agent that starts with empty maps.
bool first_plans(const std::string& what, lb::k8s::Selection selection) {
  constexpr std::size_t services = 10'000;
  lb::agent::PlanOptions options;
  options.selection = selection;
  options.consistent_tables = 63;  // the default number
  Bench bench(Bench::Begins::later, options);
  bench.prepare([](auto& cluster) {
    for (std::size_t at = 0; at < services; ++at) {
      const auto name = fmt::format("s{:05}", at);
      auto made = service(name, 1, 10 + at);
      made.created = static_cast<std::int64_t>(1 + at * 7919 % services);  // not in the names' order
      cluster.upsert(made);
      cluster.upsert(slice(name, at, 1, 10));
    }
  });
  bench.measure("the first plans: 10,000 " + what + " of 10 endpoints",
                [](auto& cluster) { cluster.synced(); });
  return bench.missed();
}

}  // namespace

int main() {
  try {
    lb::bench::need_memory(mebibytes);
    fmt::print("Milliseconds of processor time; a step may take {}, a small service wait {}\n\n", max_step,
               max_wait);
    fmt::print("| what | in all | longest step | a small service waits |\n|---|---|---|---|\n");
    Bench bench;
    addresses(bench);
    ports(bench);
    ranges(bench);
    ingresses(bench);
    own_node(bench);
    hints(bench);
    endpoints(bench, 1, 100, "1,000 endpoints, 100 ports");
    endpoints(bench, 100, 10, "100 slices of 1,000 endpoints, 10 ports");
    rivals(bench);
    local_endpoints(bench);
    consistent(bench);
    changing(bench);
    many_ranges(bench);
    large_file(bench);
    weights(bench, 100, "27,000 endpoints of weights 100 and 99, 100 ports", 1);
    weights(bench, 10, "27,000 endpoints of weights 100 and 63, 10 ports", 37);
    bool missed_first = first_plans("services", lb::k8s::Selection::random);
    missed_first |= first_plans("consistent services", lb::k8s::Selection::consistent);
    const bool missed_decoding = decodings();
    return bench.missed() || missed_first || missed_decoding ? lb::bench::figure_missed : 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_turns: {}\n", error.what());
    return 1;
  }
}
