// SPDX-License-Identifier: Apache-2.0
// Problems inside one object, with their positions: collected while a decoder walks, reported by its caller.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lb::k8s {

struct Problem {
  std::string pointer;  ///< RFC 6901: "/spec/ports/0/port"; "": the object itself
  std::string reason;
  bool operator==(const Problem&) const = default;
};

/// The start of a text, at most `max_bytes` bytes, without a partial UTF-8 character at its end.
[[nodiscard]] std::string_view start_of(std::string_view text, std::size_t max_bytes);

/// The usual form "spec.ports[0].port" of "/spec/ports/0/port".
[[nodiscard]] std::string field_path(std::string_view pointer);

/// Collects an object's problems. Tracks the current position by the walker's steps, so that rules need not.
class Problems {
 public:
  /// Limit of stored problems; further ones are only counted: a hostile object must not fill the log.
  static constexpr std::size_t kept = 8;

  /// A step into a member or an element, while it lives.
  class Step {
   public:
    Step(Problems& problems, std::string_view member) : problems_(problems) {
      problems_.steps_.push_back({member, 0});
    }
    Step(Problems& problems, std::size_t element) : problems_(problems) {
      problems_.steps_.push_back({{}, element});
    }
    ~Step() { problems_.steps_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Problems& problems_;
  };

  /// Adds a problem at the current position.
  void add(std::string reason);
  /// Adds a problem at a member of the current position.
  void add(std::string_view member, std::string reason);
  /// Returns the collected problems, with one line for the number of further ones, and starts again.
  [[nodiscard]] std::vector<Problem> take();

 private:
  struct Place {
    std::string_view member;  ///< a name with static lifetime; empty: an element
    std::size_t element;
  };

  [[nodiscard]] std::string pointer() const;

  std::vector<Place> steps_;
  std::vector<Problem> problems_;
  std::size_t more_ = 0;
};

}  // namespace lb::k8s
