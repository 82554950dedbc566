// Objects in the API server's protobuf, behind the same interface and rules as JSON.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "k8s/encoding/decode.hpp"

namespace lb::k8s {

/// What precedes every enveloped object: "k8s\0", then runtime.Unknown.
inline constexpr std::string_view protobuf_magic{"k8s\0", 4};

/// runtime.Unknown: an object and the kind it says it is.
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view message;
};

/// Nothing for an envelope that is broken. Bytes without one, as a list's items, are the message itself.
[[nodiscard]] std::optional<Envelope> open_envelope(std::string_view bytes);

/// Reads messages as of Kubernetes' generated.proto (core/v1, discovery/v1), in envelopes or bare.
[[nodiscard]] std::unique_ptr<Decoder> protobuf_decoder(Origin origin);

}  // namespace lb::k8s
