// Reads files that operators name and others may write: credentials, kubeconfigs, configurations.
#pragma once

#include <cstddef>
#include <string>

namespace lb::k8s {

/// All of a file of at most `most` bytes into `text`. 0, or an errno, and `text` is as it was; EFBIG: the
/// file is larger. Never waits, whatever it is: a FIFO without a writer is empty.
[[nodiscard]] int read_bounded(const std::string& path, std::size_t most, std::string& text);

}  // namespace lb::k8s
