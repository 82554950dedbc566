// SPDX-License-Identifier: Apache-2.0
// REL-58: decodes objects in both encodings: any bytes give a result, the same one when decoded again, and
// the decoded object can be planned. The first byte selects kind, encoding and origin (see Question); the
// rest is the object.
#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <tuple>

#include "k8s/encoding/protobuf.hpp"
#include "k8s/encoding/text_position.hpp"
#include "k8s/watch/transport_body.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/world.hpp"

namespace lb::fuzz {
namespace {

using k8s::Decoded;
using k8s::DecodeResult;
using k8s::Kind;

enum class Wire : std::uint8_t { json, protobuf };

/// Bits 0 to 2: the kind (0 to 4, then 0 again); bit 3: protobuf; bit 4: from a manifest. So '@' to 'D' and
/// 'P' to 'T' are JSON, 'H' to 'L' protobuf.
struct Question {
  explicit Question(std::uint8_t byte)
      : kind(static_cast<Kind>((byte & 7U) % 5)),
        wire((byte & 8U) != 0 ? Wire::protobuf : Wire::json),
        origin((byte & 16U) != 0 ? k8s::Origin::manifest : k8s::Origin::api_server) {}

  [[nodiscard]] std::unique_ptr<k8s::Decoder> decoder() const {
    return wire == Wire::json ? k8s::json_decoder(origin) : k8s::protobuf_decoder(origin);
  }
  [[nodiscard]] std::unique_ptr<k8s::Encoding> encoding() const {
    return wire == Wire::json ? k8s::json_encoding() : k8s::protobuf_encoding();
  }

  Kind kind;
  Wire wire;
  k8s::Origin origin;
};

Kind kind_of(const k8s::Object& object) {
  constexpr std::array kinds = {Kind::service, Kind::slice, Kind::node, Kind::service_cidr};
  return kinds.at(object.index());
}

/// Whether it is a single line of valid text, fit for a log.
bool is_line(std::string_view text) {
  return !text.empty() && k8s::valid_utf8(text) &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void check_shape(const Decoded& decoded, std::string_view bytes) {
  require(decoded.object.has_value() == (decoded.result == DecodeResult::object),
          "an object if the result says so");
  require(decoded.result != DecodeResult::refused || !decoded.problems.empty(),
          "what is refused has a reason");
  require((decoded.result == DecodeResult::foreign) == (decoded.kind == Kind::other) ||
              decoded.result == DecodeResult::refused,
          "what is foreign has a kind that is not read");
  require(
      !decoded.broken_at || (decoded.result == DecodeResult::refused && *decoded.broken_at <= bytes.size()),
      "the broken place is inside");
  for (const auto& problem : decoded.problems) {
    require(is_line(problem.reason), "a problem is a line of text");
  }
  if (decoded.object) {
    require(kind_of(*decoded.object) == decoded.kind, "the object is of its kind");
    require(!decoded.key.name.empty(), "an object has a name");
  }
}

void check_json(const Decoded& decoded, std::string_view bytes) {
  require(decoded.broken_at || k8s::is_json(bytes),
          "what simdjson takes is JSON to the one that finds places");
  for (const auto& problem : decoded.problems) {
    require(k8s::locate(bytes, problem.pointer) <= bytes.size(), "a problem's place is inside");
  }
}

void check_same(const Decoded& one, const Decoded& other) {
  require(one.result == other.result && one.kind == other.kind && one.key == other.key &&
              one.version == other.version && one.object == other.object && one.problems == other.problems &&
              one.broken_at == other.broken_at,
          "a decoder remembers nothing");
}

void decode(const Question& question, std::string_view bytes) {
  const auto decoder = question.decoder();
  const auto decoded = decoder->decode(bytes, question.kind);
  check_shape(decoded, bytes);
  if (question.wire == Wire::json) {
    check_json(decoded, bytes);
  }
  std::ignore = decoder->decode(bytes.substr(0, bytes.size() / 2), question.kind);
  check_same(decoded, decoder->decode(bytes, question.kind));
  if (decoded.object) {
    World(*decoded.object).visit(*decoded.object);
  }
}

}  // namespace
}  // namespace lb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lb::fuzz::Input input(data, size);
  const lb::fuzz::Question question(input.byte());
  lb::fuzz::decode(question, input.rest());
  const auto encoding = question.encoding();
  std::ignore = encoding->bookmark(input.rest());
  std::ignore = encoding->status(input.rest());
  return 0;
}
