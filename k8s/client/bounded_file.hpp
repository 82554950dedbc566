// SPDX-License-Identifier: Apache-2.0
// Reads files that operators name and others may write: credentials, kubeconfigs, configurations.
#pragma once

#include <cstddef>
#include <string>

namespace lb::k8s {

/// Reads a whole file of at most `max_bytes` bytes into `text`. Returns 0, or an errno and leaves `text`
/// unchanged; EFBIG: the file is larger. Never blocks, whatever the file type: a FIFO without a writer is
/// empty.
[[nodiscard]] int read_bounded(const std::string& path, std::size_t max_bytes, std::string& text);

}  // namespace lb::k8s
