// SPDX-License-Identifier: Apache-2.0
// Reads protobuf messages field by field. protozero throws on invalid bytes: callers catch
// protozero::exception. Included by protobuf*.cpp and transport_protobuf.cpp only.
#pragma once

#include <cstdint>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>

#include "k8s/objects/wire.hpp"

namespace lb::k8s::protobuf {

/// A message whose accessors check the wire type, which protozero itself only asserts.
class Message {
 public:
  explicit Message(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  [[nodiscard]] bool next() { return reader_.next(); }
  [[nodiscard]] std::uint32_t tag() const { return reader_.tag(); }
  void skip() { reader_.skip(); }
  /// A string, bytes, or an embedded message.
  [[nodiscard]] std::string_view bytes() {
    require(protozero::pbf_wire_type::length_delimited);
    const auto view = reader_.get_view();
    return {view.data(), view.size()};
  }
  [[nodiscard]] std::int64_t number() {
    require(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  [[nodiscard]] bool boolean() { return number() != 0; }

 private:
  void require(protozero::pbf_wire_type type) const {
    if (reader_.wire_type() != type) {
      throw protozero::unknown_pbf_wire_type_exception();
    }
  }

  protozero::pbf_reader reader_;
};

/// An entry of a map<string, string>.
inline void read_pair(std::string_view bytes, wire::Pairs& out) {
  auto& [key, value] = out.emplace_back();
  for (Message entry(bytes); entry.next();) {
    switch (entry.tag()) {
      case 1:
        key = entry.bytes();
        break;
      case 2:
        value = entry.bytes();
        break;
      default:
        entry.skip();
    }
  }
}

/// Texts of an ObjectMeta's times, to which the metadata's views refer.
struct Times {
  std::string created;
  std::string deleted;
};

/// Reads an ObjectMeta.
void read_metadata(std::string_view bytes, wire::Metadata& metadata, Times& times);
[[nodiscard]] wire::ServicePort read_service_port(std::string_view bytes);
void read_affinity(std::string_view bytes, wire::Service& wire);
[[nodiscard]] wire::Ingress read_ingress(std::string_view bytes);
[[nodiscard]] wire::Taint read_taint(std::string_view bytes);
[[nodiscard]] wire::SlicePort read_slice_port(std::string_view bytes);
void read_endpoint(std::string_view bytes, wire::Endpoint& endpoint);
/// Resets the endpoint, but keeps its vectors' memory.
void clear(wire::Endpoint& endpoint);

}  // namespace lb::k8s::protobuf
