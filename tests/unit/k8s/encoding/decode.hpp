// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the decoder's tests: build objects' JSON from a few members, and print decoded objects.
#pragma once

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "k8s/encoding/decode.hpp"
#include "tests/unit/k8s/support.hpp"

namespace lb::k8s::testing {

inline Decoded decode(const std::string& json, Origin origin = Origin::api_server,
                      Kind expected = Kind::other) {
  return json_decoder(origin)->decode(json, expected);
}

/// A Service's JSON with these members of its spec.
inline std::string service_json(const std::string& spec, const std::string& more = "",
                                const std::string& metadata = "") {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"Service","metadata":{{"name":"web","namespace":"shop"{}}},"spec":{{{}}}{}}})",
      metadata, spec, more);
}

inline std::string slice_json(const std::string& members, const std::string& metadata = "") {
  return fmt::format(
      R"({{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{{"name":"web-1","namespace":"shop",)"
      R"("labels":{{"kubernetes.io/service-name":"web"}}{}}},{}}})",
      metadata, members);
}

inline std::string endpoints_json(const std::string& endpoints) {
  return slice_json(R"("addressType":"IPv4","ports":[{"name":"","port":80}],"endpoints":[)" + endpoints +
                    "]");
}

inline Service service_of(const Decoded& decoded) {
  REQUIRE(decoded.result == DecodeResult::object);
  return std::get<Service>(decoded.object.value());
}

inline EndpointSlice slice_of(const Decoded& decoded) {
  REQUIRE(decoded.result == DecodeResult::object);
  return std::get<EndpointSlice>(decoded.object.value());
}

/// "pointer reason" of each decoding problem, joined by newlines.
inline std::string problems_of(const Decoded& decoded) {
  std::string out;
  for (const auto& problem : decoded.problems) {
    out += (out.empty() ? "" : "\n") + problem.pointer + " " + problem.reason;
  }
  return out;
}

}  // namespace lb::k8s::testing
