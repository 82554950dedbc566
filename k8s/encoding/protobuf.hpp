// SPDX-License-Identifier: Apache-2.0
// Objects in the API server's protobuf encoding, with the same interface and rules as JSON.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "k8s/encoding/decode.hpp"

namespace lb::k8s {

/// The prefix of every enveloped object: "k8s\0", followed by runtime.Unknown.
inline constexpr std::string_view protobuf_magic{"k8s\0", 4};

/// runtime.Unknown: an object with its API version and kind.
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view message;
};

/// nullopt for a malformed envelope. Bytes without an envelope, like a list's items, are the message itself.
[[nodiscard]] std::optional<Envelope> open_envelope(std::string_view bytes);

/// Decodes messages of Kubernetes' generated.proto (core/v1, discovery/v1), with or without envelope.
[[nodiscard]] std::unique_ptr<Decoder> protobuf_decoder(Origin origin);

}  // namespace lb::k8s
