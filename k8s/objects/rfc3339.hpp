// SPDX-License-Identifier: Apache-2.0
// Parses times (RFC 3339) like Go's time.RFC3339Nano, with the C library.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lb::k8s {

/// Unix nanoseconds of "2026-01-31T12:00:00.123456789Z" or of "…+01:00"; nullopt for anything else, and for
/// years out of range of nanoseconds (before 1678, after 2261).
[[nodiscard]] std::optional<std::int64_t> unix_nanoseconds(std::string_view text);

}  // namespace lb::k8s
