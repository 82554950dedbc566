// SPDX-License-Identifier: Apache-2.0
// Walks parsed JSON by tables of members: types, duplicates, positions of problems. Included by decode.cpp
// only.
//
// A value of a wrong type, or a duplicate one, rejects the innermost list entry that contains it, else the
// object: input that Kubernetes' own decoder would reject is not interpreted. null counts as absent.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/encoding/problem.hpp"
#include "k8s/encoding/rules.hpp"
#include "k8s/objects/wire.hpp"

namespace lb::k8s::json {

namespace dom = simdjson::dom;

enum class Read : std::uint8_t { good, refused };

inline Read refuse(Problems& problems, std::string reason) {
  problems.add(std::move(reason));
  return Read::refused;
}

inline std::string_view type_text(dom::element value) {
  switch (value.type()) {
    case dom::element_type::ARRAY:
      return "a list";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "true or false";
    case dom::element_type::DOUBLE:
      return "a number with a fraction or too large";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

inline Read wrong_type(dom::element value, std::string_view wanted, Problems& problems) {
  return refuse(problems, fmt::format("is {} where {} is expected", type_text(value), wanted));
}

// ---- Leaves. ----

inline Read read(dom::element value, std::string_view& out, Problems& problems) {
  return value.get(out) == simdjson::SUCCESS ? Read::good : wrong_type(value, "a string", problems);
}

inline Read read(dom::element value, std::int64_t& out, Problems& problems) {
  return value.get(out) == simdjson::SUCCESS ? Read::good : wrong_type(value, "a whole number", problems);
}

inline Read read(dom::element value, bool& out, Problems& problems) {
  return value.get(out) == simdjson::SUCCESS ? Read::good : wrong_type(value, "true or false", problems);
}

template <typename T>
Read read(dom::element value, std::optional<T>& out, Problems& problems) {
  return read(value, out.emplace(), problems);
}

// ---- Objects and lists. ----

/// A member of an object that is read.
template <typename Target>
struct Member {
  std::string_view name;
  Read (*read)(dom::element value, Target& target, Problems& problems);
};

template <typename Target, std::size_t Count>
Read read_object(dom::element value, const std::array<Member<Target>, Count>& members, Target& target,
                 Problems& problems) {
  static_assert(Count <= 32);
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return wrong_type(value, "an object", problems);
  }
  std::uint32_t seen = 0;
  for (const auto field : object) {
    std::size_t i = 0;
    while (i < Count && members[i].name != field.key) {
      ++i;
    }
    if (i == Count || field.value.is_null()) {
      continue;
    }
    const Problems::Step step(problems, members[i].name);
    if ((seen >> i & 1U) != 0) {
      return refuse(problems, "is given twice");
    }
    seen |= 1U << i;
    if (members[i].read(field.value, target, problems) == Read::refused) {
      return Read::refused;
    }
  }
  return Read::good;
}

/// Calls each(element) for every element; one that it rejects is left out, with a problem.
template <typename Each>
Read read_list(dom::element value, Problems& problems, Each each) {
  dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    return wrong_type(value, "a list", problems);
  }
  std::size_t index = 0;
  for (const auto element : array) {
    const Problems::Step step(problems, index++);
    each(element);
  }
  return Read::good;
}

inline Read read(dom::element value, std::vector<std::string_view>& out, Problems& problems) {
  return read_list(value, problems, [&](dom::element element) {
    std::string_view text;
    if (read(element, text, problems) == Read::good) {
      out.push_back(text);
    }
  });
}

/// Reads a map of strings: labels, annotations.
inline Read read(dom::element value, wire::Pairs& out, Problems& problems) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return wrong_type(value, "an object", problems);
  }
  for (const auto field : object) {
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return refuse(problems, fmt::format("{}: is {} where a string is expected", rules::quoted(field.key),
                                          type_text(field.value)));
    }
    out.emplace_back(field.key, text);
  }
  return Read::good;
}

/// Reads a member directly into a field.
template <auto Field, typename Target>
Read leaf(dom::element value, Target& target, Problems& problems) {
  return read(value, target.*Field, problems);
}

/// Reads a member that is an object whose members belong to the same target.
template <const auto& members, typename Target>
Read nested(dom::element value, Target& target, Problems& problems) {
  return read_object(value, members, target, problems);
}

/// Reads a member that is an object into a field of the target.
template <auto Field, const auto& members, typename Target>
Read inner(dom::element value, Target& target, Problems& problems) {
  return read_object(value, members, target.*Field, problems);
}

/// Reads a list of objects, and passes each to a rule.
template <typename Element, const auto& members, auto Rule, typename Walk>
Read object_list(dom::element value, Walk& walk, Problems& problems) {
  return read_list(value, problems, [&](dom::element element) {
    Element wire;
    if (read_object(element, members, wire, problems) == Read::good) {
      (walk.rules.*Rule)(wire);
    }
  });
}

/// Reads a list of strings, and passes each to a rule.
template <auto Rule, typename Walk>
Read text_list(dom::element value, Walk& walk, Problems& problems) {
  return read_list(value, problems, [&](dom::element element) {
    std::string_view text;
    if (read(element, text, problems) == Read::good) {
      (walk.rules.*Rule)(text);
    }
  });
}

}  // namespace lb::k8s::json
