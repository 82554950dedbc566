// SPDX-License-Identifier: Apache-2.0
// Splits JSON text into values without parsing them, so that a list is decoded object by object and memory is
// bounded by its largest object. Does not validate the values: the decoder does.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace lb::k8s {

/// Finds the end of the JSON value that begins a text. The text may arrive in pieces.
class ValueScanner {
 public:
  /// The number of bytes of `piece` up to the value's end; nullopt if the value continues after the piece.
  /// Only objects, arrays and strings have their own end; a number or a word ends before the next other byte.
  [[nodiscard]] std::optional<std::size_t> scan(std::string_view piece);
  /// Whether the text may end here, because the value is a number or a word.
  [[nodiscard]] bool may_end() const { return inside_ == Inside::word; }

 private:
  enum class Inside : unsigned char { nothing, structure, string, escape, word };

  [[nodiscard]] std::size_t begin(std::string_view piece);
  [[nodiscard]] std::size_t structure(std::string_view piece, std::size_t at);
  [[nodiscard]] std::size_t string(std::string_view piece, std::size_t at);

  Inside inside_ = Inside::nothing;
  std::size_t depth_ = 0;
};

/// Index of the first byte at or after `at` that is not JSON white space, or the text's size.
[[nodiscard]] std::size_t skip_space(std::string_view text, std::size_t at);

/// A position in JSON text that advances over tokens and whole values. After an error it stays at the error.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text), at_(skip_space(text, 0)) {}

  /// Skips one punctuation character if it is next.
  bool take(char wanted);
  /// Like take(), but anything else is an error.
  void expect(char wanted) { broken_ = !take(wanted) || broken_; }
  /// Skips the next value of any type, and returns it.
  std::string_view value();
  /// Skips the next value if it is a string, else it is an error; returns it without quotes, with escapes
  /// unchanged.
  std::string_view string();

  [[nodiscard]] bool next_is(char c) const { return !broken_ && at_ < text_.size() && text_[at_] == c; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_;
  bool broken_ = false;
};

/// An object document, split at its top level.
struct Cut {
  std::string_view kind;         ///< without quotes; empty: none
  std::string_view api_version;  ///< without quotes; empty: none
  bool has_items = false;
  std::vector<std::string_view> items;
  /// Position of a syntax error; nullopt if there is none. Items before it are usable.
  std::optional<std::size_t> broken_at;
  std::size_t end = 0;  ///< bytes up to the object's end
};

/// Splits the object at the beginning of `text`, after white space. Ignores text after it.
[[nodiscard]] Cut cut_object(std::string_view text);

}  // namespace lb::k8s
