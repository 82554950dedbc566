// Splits the text of a manifest file into the JSON of its objects: documents, concatenated JSON, lists. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "k8s/encoding/rules.hpp"

namespace lb::k8s {

enum class Format : std::uint8_t { yaml, json };

/// Takes what a file holds, in its order.
class DocumentVisitor {
 public:
  virtual ~DocumentVisitor() = default;
  /// One object's text, for the time of the call. Its first byte is on `line`, and its lines are the file's.
  virtual void object(std::string_view json, Kind expected, std::size_t line) = 0;
  /// Something on `line` cannot be read; how many objects it would have been is not known.
  virtual void broken(std::size_t line, std::string reason) = 0;
};

/// Documents are separated by lines that begin with "---" (or are "..."), so that a broken one leaves the
/// others alone. JSON may stand in a YAML file. A broken JSON text ends its document, because it is not
/// known where the next object begins. Lines count from 1.
void read_documents(std::string_view text, Format format, DocumentVisitor& visitor);

}  // namespace lb::k8s
