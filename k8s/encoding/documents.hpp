// SPDX-License-Identifier: Apache-2.0
// Splits the text of a manifest file into the JSON of its objects: documents, concatenated JSON, lists. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "k8s/encoding/rules.hpp"

namespace lb::k8s {

enum class Format : std::uint8_t { yaml, json };

/// Receives the objects of a file in order.
class DocumentVisitor {
 public:
  virtual ~DocumentVisitor() = default;
  /// One object's text, valid during the call. It begins on `line`, and its line numbers are the file's.
  virtual void object(std::string_view json, Kind expected, std::size_t line) = 0;
  /// A syntax error on `line`; the number of affected objects is unknown.
  virtual void broken(std::size_t line, std::string reason) = 0;
};

/// Documents are separated by lines that begin with "---" (or are "..."), so that a broken document does not
/// affect the others. JSON is allowed in a YAML file. Broken JSON text ends its document, because the start
/// of the next object is unknown. Lines count from 1.
void read_documents(std::string_view text, Format format, DocumentVisitor& visitor);

}  // namespace lb::k8s
