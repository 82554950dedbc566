// SPDX-License-Identifier: Apache-2.0
// Decodes the bytes of one object to an object of the model: the interface that every encoding implements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "k8s/encoding/problem.hpp"
#include "k8s/encoding/rules.hpp"
#include "k8s/objects/model.hpp"

namespace lb::k8s {

using Object = std::variant<Service, EndpointSlice, Node, ServiceCidr>;

enum class DecodeResult : std::uint8_t {
  object,   ///< there is an object
  absent,   ///< valid, but must be treated as if it did not exist (SEM-2, SEM-4)
  foreign,  ///< of a kind that is not decoded
  refused,  ///< invalid: an earlier state is kept
};

struct Decoded {
  DecodeResult result = DecodeResult::refused;
  Kind kind = Kind::other;
  ObjectKey key;                 ///< empty if unknown
  std::uint64_t version = 0;     ///< metadata.resourceVersion; 0: missing or not a number
  std::optional<Object> object;  ///< set if the result is `object`
  std::vector<Problem> problems;
  /// Position of the syntax error in bytes; only if it is the reason for `refused`.
  std::optional<std::size_t> broken_at;
};

/// Decodes single objects. Every input gives a result; nothing is thrown. Not thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// `expected` is the kind of an object without its own, as in the API's lists.
  [[nodiscard]] virtual Decoded decode(std::string_view bytes, Kind expected) = 0;
};

/// JSON by RFC 8259, with simdjson: at most 64 MiB an object and 100 levels deep.
[[nodiscard]] std::unique_ptr<Decoder> json_decoder(Origin origin);

/// The kind of a list's items: "ServiceList" is Kind::service; "List" and unknown lists are Kind::other.
[[nodiscard]] Kind item_kind(std::string_view list_kind);

[[nodiscard]] bool valid_utf8(std::string_view text);

}  // namespace lb::k8s
