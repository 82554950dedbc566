// SPDX-License-Identifier: Apache-2.0
// Responses of a kube-apiserver 1.36: its protobuf and its JSON of the same objects must give the same
// models. The bodies are in tests/corpus/api; they confirm the field numbers that k8s/encoding/protobuf*
// read.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "k8s/watch/transport_body.hpp"
#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"

using namespace lb::k8s;

namespace {

std::string read(const std::string& name) {
  return lb::test::content_of(lb::test::source_path("tests/corpus/api/" + name));
}

struct Part {
  EventType type = EventType::unknown;
  Decoded decoded;
  std::optional<Bookmark> bookmark;
  std::optional<ApiStatus> status;
};

/// The items and metadata of a body.
class Parts final : public BodySink {
 public:
  Parts(Encoding& encoding, Kind kind) : encoding_(encoding), kind_(kind) {}

  void list_meta(ListMeta reported) override { meta = std::move(reported); }
  ReadControl item(std::string_view object) override { return event(EventType::upserted, object); }
  ReadControl event(EventType type, std::string_view object) override {
    Part part{.type = type, .decoded = {}, .bookmark = {}, .status = {}};
    if (type == EventType::bookmark) {
      part.bookmark = encoding_.bookmark(object);
    } else if (type == EventType::error) {
      part.status = encoding_.status(object);
    } else {
      part.decoded = encoding_.decoder().decode(object, kind_);
    }
    parts.push_back(std::move(part));
    return ReadControl::proceed;
  }

  ListMeta meta;
  std::vector<Part> parts;

 private:
  Encoding& encoding_;
  Kind kind_;
};

enum class Shape : std::uint8_t { list, watch };

Parts take_apart(Encoding& encoding, Kind kind, Shape shape, const std::string& bytes) {
  const auto reader = shape == Shape::list ? encoding.list_reader() : encoding.watch_reader();
  Parts parts(encoding, kind);
  REQUIRE(reader->feed(bytes, parts) == BodyReader::State::good);
  CHECK(reader->whole());
  return parts;
}

void check_equal(const Part& json, const Part& protobuf) {
  CHECK(json.type == protobuf.type);
  CAPTURE(json.decoded.key.text());
  CHECK(json.decoded.result == protobuf.decoded.result);
  CHECK(json.decoded.kind == protobuf.decoded.kind);
  CHECK(json.decoded.key == protobuf.decoded.key);
  CHECK(json.decoded.version == protobuf.decoded.version);
  CHECK(json.decoded.object == protobuf.decoded.object);
  CHECK(json.decoded.problems == protobuf.decoded.problems);
  REQUIRE(json.bookmark.has_value() == protobuf.bookmark.has_value());
  if (json.bookmark) {
    CHECK(json.bookmark->initial_end == protobuf.bookmark->initial_end);
    CHECK(json.bookmark->version != 0);
    CHECK(protobuf.bookmark->version != 0);
  }
}

struct Row {
  const char* resource;
  Kind kind;
};

const Row rows[] = {{"services", Kind::service},
                    {"endpointslices", Kind::slice},
                    {"nodes", Kind::node},
                    {"servicecidrs", Kind::service_cidr}};

}  // namespace

TEST_CASE("k8s real bytes: lists and watches are the same in both encodings") {
  const auto json = json_encoding();
  const auto protobuf = protobuf_encoding();
  struct File {
    const char* name;
    Shape shape;
  };
  for (const auto& row : rows) {
    for (const auto& file : {File{"page", Shape::list}, File{"stream", Shape::watch}}) {
      const auto name = fmt::format("{}.{}", row.resource, file.name);
      CAPTURE(name);
      const auto left = take_apart(*json, row.kind, file.shape, read(name + ".json"));
      const auto right = take_apart(*protobuf, row.kind, file.shape, read(name + ".pb"));
      REQUIRE(left.parts.size() == right.parts.size());
      REQUIRE_FALSE(left.parts.empty());
      for (std::size_t i = 0; i < left.parts.size(); ++i) {
        check_equal(left.parts[i], right.parts[i]);
      }
      CHECK(left.meta.more.empty() == right.meta.more.empty());
      CHECK((left.meta.version != 0) == (file.shape == Shape::list));
      CHECK((right.meta.version != 0) == (file.shape == Shape::list));
      if (file.shape == Shape::watch) {
        CHECK(left.parts.back().bookmark.value().initial_end);
      }
    }
  }
}

TEST_CASE("k8s real bytes: every field of the model is set somewhere") {
  const auto encoding = protobuf_encoding();
  const auto services = take_apart(*encoding, Kind::service, Shape::watch, read("services.stream.pb"));
  Service all;
  for (const auto& part : services.parts) {
    if (!part.decoded.object) {
      continue;
    }
    const auto& service = std::get<Service>(*part.decoded.object);
    all.uid = service.uid;
    all.created = std::max(all.created, service.created);
    all.cluster_ips.insert(all.cluster_ips.end(), service.cluster_ips.begin(), service.cluster_ips.end());
    all.headless = all.headless || service.headless;
    all.other_proxy = all.other_proxy || service.other_proxy;
    for (const auto& [to, from] : {std::pair(&all.external_ips, &service.external_ips),
                                   std::pair(&all.load_balancer_ips, &service.load_balancer_ips)}) {
      to->insert(to->end(), from->begin(), from->end());
    }
    all.source_ranges.insert(all.source_ranges.end(), service.source_ranges.begin(),
                             service.source_ranges.end());
    all.affinity_seconds = std::max(all.affinity_seconds, service.affinity_seconds);
    all.health_check_node_port = std::max(all.health_check_node_port, service.health_check_node_port);
    all.ports.insert(all.ports.end(), service.ports.begin(), service.ports.end());
    if (service.internal_policy == TrafficPolicy::local) {
      all.internal_policy = TrafficPolicy::local;
    }
    if (service.external_policy == TrafficPolicy::local) {
      all.external_policy = TrafficPolicy::local;
    }
  }
  CHECK_FALSE(all.uid.empty());
  CHECK(all.created > 1'700'000'000);
  CHECK(all.cluster_ips.size() >= 3);
  CHECK_FALSE(all.external_ips.empty());
  CHECK_FALSE(all.load_balancer_ips.empty());
  CHECK_FALSE(all.source_ranges.empty());
  CHECK(all.affinity_seconds > 0);
  CHECK(all.health_check_node_port > 0);
  CHECK(all.internal_policy == TrafficPolicy::local);
  CHECK(all.external_policy == TrafficPolicy::local);
  const auto with_node_port =
      std::ranges::count_if(all.ports, [](const auto& port) { return port.node_port != 0; });
  CHECK(with_node_port > 0);
}

TEST_CASE("k8s real bytes: endpoints' conditions, places and hints, the Node, and ServiceCIDRs") {
  const auto encoding = protobuf_encoding();
  const auto slices = take_apart(*encoding, Kind::slice, Shape::watch, read("endpointslices.stream.pb"));
  bool hints = false;
  bool terminating = false;
  for (const auto& part : slices.parts) {
    const auto* slice = part.decoded.object ? std::get_if<EndpointSlice>(&*part.decoded.object) : nullptr;
    if (slice == nullptr || slice->key.name != "by-hand") {
      continue;
    }
    REQUIRE(slice->endpoints.size() == 5);
    CHECK(slice->weight == 7);
    CHECK(slice->triggers == std::vector<std::int64_t>{1795291200'123456000});
    CHECK(slice->endpoints[0].node_name == "node");
    CHECK(slice->endpoints[0].zone == "zone-a");
    hints = slice->endpoints[0].hint_zones == std::vector<std::string>{"zone-a", "zone-b"} &&
            slice->endpoints[0].hint_nodes == std::vector<std::string>{"node", "worker-a"};
    terminating =
        slice->endpoints[1].terminating && slice->endpoints[1].serving && !slice->endpoints[1].ready;
    CHECK(slice->endpoints[3].ready);
  }
  CHECK(hints);
  CHECK(terminating);
  bool leaving = false;
  bool ranges = false;
  for (const auto& part : take_apart(*encoding, Kind::node, Shape::watch, read("nodes.stream.pb")).parts) {
    if (part.decoded.object) {
      const auto& node = std::get<Node>(*part.decoded.object);
      leaving = leaving || node.leaving;
      ranges = ranges || node.pod_cidrs.size() == 2;
      CHECK_FALSE(node.labels.empty());
      CHECK(node.pod_cidrs.size() <= 2);
    }
  }
  CHECK(leaving);
  CHECK(ranges);
  for (const auto& part :
       take_apart(*encoding, Kind::service_cidr, Shape::watch, read("servicecidrs.stream.pb")).parts) {
    if (part.decoded.object) {
      CHECK_FALSE(std::get<ServiceCidr>(*part.decoded.object).ranges.empty());
    }
  }
}

TEST_CASE("k8s real bytes: changes and errors") {
  const auto json = json_encoding();
  const auto protobuf = protobuf_encoding();
  for (auto* encoding : {json.get(), protobuf.get()}) {
    const auto* suffix = encoding == json.get() ? "json" : "pb";
    CAPTURE(suffix);
    const auto changes =
        take_apart(*encoding, Kind::service, Shape::watch, read(fmt::format("services.changes.{}", suffix)));
    const auto count = [&](EventType type) {
      return std::ranges::count_if(changes.parts, [type](const auto& part) { return part.type == type; });
    };
    CHECK(count(EventType::upserted) > 0);
    CHECK(count(EventType::deleted) > 0);
    for (const auto& part : changes.parts) {
      CHECK((part.bookmark || part.decoded.version > 0));
    }
  }
  const auto refused = protobuf->status(read("401.pb"));
  REQUIRE(refused);
  CHECK(refused->code == 401);
  CHECK(refused->reason == "Unauthorized");
}
