// Splits JSON text into values without parsing them, so that a list is decoded object by object and memory is
// bounded by its largest object. The values are not validated yet: the decoder does that.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace lb::k8s {

/// Finds where the JSON value that begins a text ends. The text may come in pieces.
class ValueScanner {
 public:
  /// The number of bytes of `piece` up to and with the value's end; nothing if it goes on after the piece.
  /// Only objects, arrays and strings know their end; a number or a word ends before the byte after it.
  [[nodiscard]] std::optional<std::size_t> scan(std::string_view piece);
  /// Whether the text may end here, because a number or a word does.
  [[nodiscard]] bool may_end() const { return inside_ == Inside::word; }

 private:
  enum class Inside : unsigned char { nothing, structure, string, escape, word };

  [[nodiscard]] std::size_t begin(std::string_view piece);
  [[nodiscard]] std::size_t structure(std::string_view piece, std::size_t at);
  [[nodiscard]] std::size_t string(std::string_view piece, std::size_t at);

  Inside inside_ = Inside::nothing;
  std::size_t depth_ = 0;
};

/// The first byte at or after `at` that is no JSON white space, or the text's size.
[[nodiscard]] std::size_t skip_space(std::string_view text, std::size_t at);

/// A position in JSON text that steps over tokens and whole values. Once broken it stays where it broke.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text), at_(skip_space(text, 0)) {}

  /// Steps over one punctuation character if it is next.
  bool take(char wanted);
  /// As take(), but anything else breaks.
  void expect(char wanted) { broken_ = !take(wanted) || broken_; }
  /// Steps over the next value, whatever it is, and returns it.
  std::string_view value();
  /// Steps over the next value if it is a string, else breaks; returns it without its quotes, escapes kept.
  std::string_view string();

  [[nodiscard]] bool next_is(char c) const { return !broken_ && at_ < text_.size() && text_[at_] == c; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_;
  bool broken_ = false;
};

/// A document that is an object, cut at its top level.
struct Cut {
  std::string_view kind;         ///< without quotes; empty: none
  std::string_view api_version;  ///< without quotes; empty: none
  bool has_items = false;
  std::vector<std::string_view> items;
  /// Where the text stops to be one object; nothing if it is whole. Items before it are good to use.
  std::optional<std::size_t> broken_at;
  std::size_t end = 0;  ///< bytes up to and with the object's end
};

/// Cuts the object that begins `text` (white space first is skipped). Text after it is left alone.
[[nodiscard]] Cut cut_object(std::string_view text);

}  // namespace lb::k8s
