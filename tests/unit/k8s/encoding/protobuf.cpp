// SPDX-License-Identifier: Apache-2.0
// Protobuf: the same objects give the same model as their JSON; bodies may be split at any byte.
#include "k8s/encoding/protobuf.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "k8s/encoding/decode.hpp"
#include "k8s/watch/transport_body.hpp"

using namespace lb::k8s;

namespace {

using Writer = protozero::pbf_writer;

/// Encodes a message whose fields `fill` writes.
template <typename Fill>
std::string message(Fill fill) {
  std::string out;
  Writer writer(out);
  fill(writer);
  return out;
}

std::string pair(const std::string& key, const std::string& value) {
  return message([&](Writer& w) {
    w.add_string(1, key);
    w.add_string(2, value);
  });
}

std::string metadata(const std::string& name, const std::string& version, const std::string& label = "") {
  return message([&](Writer& w) {
    w.add_string(1, name);
    w.add_string(3, "shop");
    w.add_string(5, "some-uid");
    w.add_string(6, version);
    w.add_message(8, message([](Writer& time) { time.add_int64(1, 1'700'000'000); }));
    if (!label.empty()) {
      w.add_message(11, pair("kubernetes.io/service-name", label));
    }
    w.add_string(17, "not read");
  });
}

std::string envelope(const std::string& version, const std::string& kind, const std::string& raw) {
  return std::string(protobuf_magic) + message([&](Writer& w) {
           w.add_message(1, pair(version, kind));
           w.add_message(2, raw);
           w.add_string(3, "");
           w.add_string(4, "");
         });
}

std::string service() {
  const auto port = message([](Writer& w) {
    w.add_string(1, "http");
    w.add_string(2, "TCP");
    w.add_int32(3, 80);
    w.add_int32(5, 30080);
  });
  const auto spec = message([&](Writer& w) {
    w.add_message(1, port);
    w.add_string(3, "10.0.0.1");
    w.add_string(4, "LoadBalancer");
    w.add_string(5, "192.0.2.7");
    w.add_string(7, "ClientIP");
    w.add_string(9, "10.0.0.0/8");
    w.add_string(11, "Local");
    w.add_int32(12, 31000);
    const auto client = message([](Writer& inner) { inner.add_int32(1, 77); });
    w.add_message(14, message([&](Writer& inner) { inner.add_message(1, client); }));
    w.add_string(18, "10.0.0.1");
    w.add_string(18, "fd00::1");
    w.add_string(19, "IPv4");
    w.add_string(19, "IPv6");
    w.add_string(22, "Local");
  });
  const auto ingress = message([](Writer& w) {
    w.add_string(1, "203.0.113.9");
    w.add_string(3, "VIP");
  });
  return message([&](Writer& w) {
    w.add_message(1, metadata("web", "41"));
    w.add_message(2, spec);
    w.add_message(3, message([&](Writer& status) {
                    status.add_message(1, message([&](Writer& b) { b.add_message(1, ingress); }));
                  }));
  });
}

constexpr auto service_json = R"({"kind":"Service","apiVersion":"v1",
  "metadata":{"name":"web","namespace":"shop","uid":"some-uid","resourceVersion":"41",
    "creationTimestamp":"2023-11-14T22:13:20Z"},
  "spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"],
    "ipFamilies":["IPv4","IPv6"],"externalIPs":["192.0.2.7"],"loadBalancerSourceRanges":["10.0.0.0/8"],
    "externalTrafficPolicy":"Local","internalTrafficPolicy":"Local","healthCheckNodePort":31000,
    "sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":77}},
    "ports":[{"name":"http","protocol":"TCP","port":80,"nodePort":30080}]},
  "status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.9","ipMode":"VIP"}]}}})";

std::string slice() {
  const auto hint = [](const std::string& name) {
    return message([&](Writer& w) { w.add_string(1, name); });
  };
  const auto endpoint = message([&](Writer& w) {
    w.add_string(1, "10.1.0.1");
    w.add_string(1, "10.1.0.2");
    w.add_message(2, message([](Writer& c) {
                    c.add_bool(1, false);
                    c.add_bool(2, true);
                    c.add_bool(3, true);
                  }));
    w.add_message(5, pair("rack", "r1"));
    w.add_string(6, "node-1");
    w.add_string(7, "zone-a");
    w.add_message(8, message([&](Writer& h) {
                    h.add_message(1, hint("zone-b"));
                    h.add_message(2, hint("node-2"));
                  }));
  });
  return message([&](Writer& w) {
    w.add_message(1, metadata("web-1", "42", "web"));
    w.add_message(2, endpoint);
    w.add_message(2, message([](Writer& e) { e.add_string(1, "no address"); }));
    w.add_message(3, message([](Writer& p) {
                    p.add_string(1, "http");
                    p.add_string(2, "UDP");
                    p.add_int32(3, 8080);
                  }));
    w.add_string(4, "IPv4");
  });
}

constexpr auto slice_json = R"({"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1",
  "metadata":{"name":"web-1","namespace":"shop","resourceVersion":"42",
    "labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4",
  "ports":[{"name":"http","protocol":"UDP","port":8080}],
  "endpoints":[{"addresses":["10.1.0.1","10.1.0.2"],"nodeName":"node-1","zone":"zone-a",
    "conditions":{"ready":false,"serving":true,"terminating":true},"deprecatedTopology":{"rack":"r1"},
    "hints":{"forZones":[{"name":"zone-b"}],"forNodes":[{"name":"node-2"}]}},{"addresses":["no address"]}]})";

std::string node() {
  const auto address = message([](Writer& w) {
    w.add_string(1, "InternalIP");
    w.add_string(2, "192.0.2.1");
  });
  return message([&](Writer& w) {
    w.add_message(1, metadata("node-1", "43", "x"));
    w.add_message(2, message([](Writer& spec) {
                    spec.add_string(1, "10.2.0.0/24");
                    spec.add_message(5, message([](Writer& taint) {
                                       taint.add_string(1, "ToBeDeletedByClusterAutoscaler");
                                       taint.add_string(2, "1700000000");
                                       taint.add_string(3, "NoSchedule");
                                     }));
                    spec.add_string(7, "10.2.0.0/24");
                    spec.add_string(7, "fd02::/64");
                  }));
    w.add_message(3, message([&](Writer& status) { status.add_message(5, address); }));
  });
}

constexpr auto node_json = R"({"kind":"Node","apiVersion":"v1",
  "metadata":{"name":"node-1","resourceVersion":"43","labels":{"kubernetes.io/service-name":"x"}},
  "spec":{"podCIDR":"10.2.0.0/24","podCIDRs":["10.2.0.0/24","fd02::/64"],
    "taints":[{"key":"ToBeDeletedByClusterAutoscaler","value":"1700000000","effect":"NoSchedule"}]},
  "status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}})";

std::string service_cidr() {
  return message([&](Writer& w) {
    w.add_message(1, metadata("kubernetes", "44"));
    w.add_message(2, message([](Writer& spec) {
                    spec.add_string(1, "10.96.0.0/12");
                    spec.add_string(1, "fd00:10:96::/112");
                  }));
    w.add_message(3, message([](Writer& status) { status.add_message(1, std::string()); }));
  });
}

constexpr auto service_cidr_json = R"({"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1",
  "metadata":{"name":"kubernetes","resourceVersion":"44"},
  "spec":{"cidrs":["10.96.0.0/12","fd00:10:96::/112"]},"status":{"conditions":[{}]}})";

struct Row {
  const char* json;
  std::string bare;
  const char* version;
  const char* kind;
  Kind expected;
};

std::vector<Row> rows() {
  return {{service_json, service(), "v1", "Service", Kind::service},
          {slice_json, slice(), "discovery.k8s.io/v1", "EndpointSlice", Kind::slice},
          {node_json, node(), "v1", "Node", Kind::node},
          {service_cidr_json, service_cidr(), "networking.k8s.io/v1", "ServiceCIDR", Kind::service_cidr}};
}

/// Records as text what a body contains.
class Parts final : public BodySink {
 public:
  void list_meta(ListMeta meta) override { text += fmt::format("meta {} {};", meta.version, meta.more); }
  ReadControl item(std::string_view object) override {
    text += fmt::format("item {};", object.size());
    return ReadControl::proceed;
  }
  ReadControl event(EventType type, std::string_view object) override {
    text += fmt::format("event {} {};", static_cast<int>(type), object.size());
    return ReadControl::proceed;
  }
  std::string text;
};

}  // namespace

TEST_CASE("k8s protobuf: an object gives what its JSON gives, in an envelope and bare") {
  for (const auto& row : rows()) {
    CAPTURE(row.kind);
    const auto json = json_decoder(Origin::api_server)->decode(row.json, Kind::other);
    REQUIRE(json.result == DecodeResult::object);
    const auto decoder = protobuf_decoder(Origin::api_server);
    for (const auto& bytes : {row.bare, envelope(row.version, row.kind, row.bare)}) {
      const auto decoded = decoder->decode(bytes, row.expected);
      REQUIRE(decoded.result == DecodeResult::object);
      CHECK(decoded.key == json.key);
      CHECK(decoded.version == json.version);
      CHECK(decoded.problems == json.problems);
      CHECK(decoded.object == json.object);
    }
  }
}

TEST_CASE(
    "REL-36 k8s protobuf: truncated bytes and foreign kinds are rejected, and damaged bytes do no harm") {
  const auto decoder = protobuf_decoder(Origin::api_server);
  for (const auto& row : rows()) {
    const auto whole = envelope(row.version, row.kind, row.bare);
    const std::size_t after_object = 4;  // two empty fields, which may be missing
    for (std::size_t i = 0; i < whole.size() - after_object; ++i) {
      CAPTURE(row.kind, i);
      CHECK(decoder->decode(whole.substr(0, i), Kind::other).result != DecodeResult::object);
      auto damaged = whole;
      damaged[i] = static_cast<char>(~damaged[i]);
      (void)decoder->decode(damaged, row.expected);
    }
  }
  CHECK(decoder->decode(envelope("v1", "Pod", node()), Kind::service).result == DecodeResult::foreign);
}

TEST_CASE("k8s protobuf: lists and watches are cut into objects wherever the bytes are cut") {
  const auto encoding = protobuf_encoding();
  const auto list = envelope("v1", "ServiceList", message([](Writer& w) {
                               w.add_message(1, message([](Writer& meta) {
                                               meta.add_string(2, "99");
                                               meta.add_string(3, "next");
                                             }));
                               w.add_message(2, service());
                               w.add_message(2, service());
                             }));
  const auto inner = envelope("v1", "Service", service());
  const auto event = message([&](Writer& w) {
    w.add_string(1, "ADDED");
    w.add_message(2, message([&](Writer& extension) { extension.add_message(1, inner); }));
  });
  const std::string length{0, 0, static_cast<char>(event.size() >> 8U), static_cast<char>(event.size())};
  const auto events = length + event + length + event;
  for (std::size_t cut = 0; cut <= list.size(); ++cut) {
    CAPTURE(cut);
    const auto reader = encoding->list_reader();
    Parts parts;
    REQUIRE(reader->feed(list.substr(0, cut), parts) == BodyReader::State::good);
    REQUIRE(reader->feed(list.substr(cut), parts) == BodyReader::State::good);
    CHECK(parts.text == fmt::format("meta 99 next;item {0};item {0};", service().size()));
    CHECK(reader->whole());
  }
  for (std::size_t cut = 0; cut <= events.size(); ++cut) {
    CAPTURE(cut);
    const auto reader = encoding->watch_reader();
    Parts parts;
    REQUIRE(reader->feed(events.substr(0, cut), parts) == BodyReader::State::good);
    REQUIRE(reader->feed(events.substr(cut), parts) == BodyReader::State::good);
    CHECK(parts.text == fmt::format("event 0 {0};event 0 {0};", inner.size()));
    CHECK(reader->whole());
  }
}

TEST_CASE("k8s protobuf: bookmarks and errors are read") {
  const auto encoding = protobuf_encoding();
  const auto head = message([](Writer& w) {
    w.add_string(6, "77");
    w.add_message(12, pair(std::string(initial_end_annotation), "true"));
  });
  const auto mark =
      encoding->bookmark(envelope("v1", "Service", message([&](Writer& w) { w.add_message(1, head); })));
  REQUIRE(mark);
  CHECK(mark->version == 77);
  CHECK(mark->initial_end);
  const auto status = encoding->status(envelope("v1", "Status", message([](Writer& w) {
                                                  w.add_string(3, "too old");
                                                  w.add_string(4, "Expired");
                                                  w.add_int32(6, 410);
                                                })));
  REQUIRE(status);
  CHECK(status->code == 410);
  CHECK(status->message == "too old");
}
