// Bytes of one object in, an object of the model out: the interface that every encoding implements.
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

enum class Verdict : std::uint8_t {
  object,   ///< there is an object
  absent,   ///< known, and shall be as if it were not there (SEM-2, SEM-4)
  foreign,  ///< of a kind that is not read
  refused,  ///< cannot be believed: an earlier state is kept
};

struct Decoded {
  Verdict verdict = Verdict::refused;
  Kind kind = Kind::other;
  ObjectKey key;                 ///< empty where it is not known
  std::uint64_t version = 0;     ///< metadata.resourceVersion; 0: none, or no number
  std::optional<Object> object;  ///< set if the verdict is `object`
  std::vector<Problem> problems;
  /// Where the text stops to be what its encoding demands, in bytes; only if that is why it was refused.
  std::optional<std::size_t> broken_at;
};

/// Decodes single objects. Any input is answered; nothing is thrown. Not for two threads at once.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// `expected` is the kind of an object that does not say its own, as in the API's lists.
  [[nodiscard]] virtual Decoded decode(std::string_view bytes, Kind expected) = 0;
};

/// JSON as of RFC 8259, by simdjson: at most 64 MiB an object and 100 levels deep.
[[nodiscard]] std::unique_ptr<Decoder> json_decoder(Origin origin);

/// The kind of a list's items: "ServiceList" is Kind::service; "List" and unknown lists are Kind::other.
[[nodiscard]] Kind item_kind(std::string_view list_kind);

[[nodiscard]] bool valid_utf8(std::string_view text);

}  // namespace lb::k8s
