// SPDX-License-Identifier: Apache-2.0
// Splits the bodies of lists and watches into objects as they arrive: one interface for JSON and protobuf.
// Memory is bounded by the largest single object. No I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "k8s/client/transport.hpp"
#include "k8s/encoding/decode.hpp"

namespace lb::k8s {

/// The largest accepted object, in bytes.
inline constexpr std::size_t max_object_bytes = std::size_t{64} << 20U;

enum class EventType : std::uint8_t { upserted, deleted, bookmark, error, unknown };

/// A list's metadata; for a list in pages, of this page.
struct ListMeta {
  std::uint64_t version = 0;  ///< 0: missing or not a number
  std::string more;           ///< the continue token; empty: this is the last page
};

/// A bookmark's content; `initial_end`: a streaming list is complete (KEP-3157).
struct Bookmark {
  std::uint64_t version = 0;
  bool initial_end = false;
};

/// metav1.Status.
struct ApiStatus {
  unsigned code = 0;
  std::string reason;
  std::string message;
  std::uint32_t retry_after = 0;  ///< seconds; 0: not given
};

/// Receives a body's parts; views are valid until the call returns.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// Called before or after the items, in the server's order.
  virtual void list_meta(ListMeta meta) = 0;
  virtual ReadControl item(std::string_view object) = 0;
  virtual ReadControl event(EventType type, std::string_view object) = 0;
};

class BodyReader {
 public:
  enum class State : std::uint8_t { good, stopped, broken };

  virtual ~BodyReader() = default;
  /// Returns anything but `good` if the rest of the body is not needed.
  virtual State feed(std::string_view bytes, BodySink& sink) = 0;
  /// Whether the body is complete at this point.
  [[nodiscard]] virtual bool whole() const = 0;
};

/// An encoding in which the API server sends objects.
class Encoding {
 public:
  virtual ~Encoding() = default;
  [[nodiscard]] virtual std::unique_ptr<BodyReader> list_reader() const = 0;
  [[nodiscard]] virtual std::unique_ptr<BodyReader> watch_reader() const = 0;
  /// Parses a bookmark event's object; nullopt if it is malformed.
  [[nodiscard]] virtual std::optional<Bookmark> bookmark(std::string_view object) const = 0;
  /// Parses a Status, from an event's object or a whole body; nullopt if it is malformed.
  [[nodiscard]] virtual std::optional<ApiStatus> status(std::string_view object) const = 0;
  [[nodiscard]] virtual Decoder& decoder() = 0;
};

[[nodiscard]] std::unique_ptr<Encoding> json_encoding();
[[nodiscard]] std::unique_ptr<Encoding> protobuf_encoding();

/// The type for an event's text; "ADDED" and "MODIFIED" are both `upserted`.
[[nodiscard]] EventType event_type(std::string_view text);

inline constexpr std::string_view initial_end_annotation = "k8s.io/initial-events-end";

}  // namespace lb::k8s
