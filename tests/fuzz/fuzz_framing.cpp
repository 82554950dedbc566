// SPDX-License-Identifier: Apache-2.0
// Bodies of lists and watches in both encodings: received in any pieces, they give the same result as in one
// piece. Input: a byte of options (see Question), the number of piece sizes, these sizes, the body.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "k8s/encoding/framing.hpp"
#include "k8s/watch/transport_body.hpp"
#include "tests/fuzz/input.hpp"

namespace lb::fuzz {
namespace {

using k8s::BodyReader;

enum class Shape : std::uint8_t { list, watch };

/// Bit 0: protobuf; bit 1: a watch; bits 2 and 3: after how many objects the reader stops (0: never).
struct Question {
  explicit Question(std::uint8_t byte)
      : encoding((byte & 1U) != 0 ? k8s::protobuf_encoding() : k8s::json_encoding()),
        is_json((byte & 1U) == 0),
        shape((byte & 2U) != 0 ? Shape::watch : Shape::list),
        most((byte >> 2U & 3U) == 0 ? SIZE_MAX : byte >> 2U & 3U) {}

  [[nodiscard]] std::unique_ptr<BodyReader> reader() const {
    return shape == Shape::list ? encoding->list_reader() : encoding->watch_reader();
  }

  std::unique_ptr<k8s::Encoding> encoding;
  bool is_json;
  Shape shape;
  std::size_t most;
};

/// Records everything in a body as text.
class Reports final : public k8s::BodySink {
 public:
  explicit Reports(std::size_t most) : most_(most) {}

  void list_meta(k8s::ListMeta meta) override {
    parts.push_back(fmt::format("meta {} {}", meta.version, meta.more));
  }
  k8s::ReadControl item(std::string_view object) override {
    items.emplace_back(object);
    return note("item", object);
  }
  k8s::ReadControl event(k8s::EventType type, std::string_view object) override {
    return note(fmt::format("event {}", static_cast<int>(type)), object);
  }

  std::vector<std::string> parts;
  std::vector<std::string> items;

 private:
  k8s::ReadControl note(std::string_view what, std::string_view object) {
    parts.push_back(fmt::format("{} {}", what, object));
    return ++objects_ < most_ ? k8s::ReadControl::proceed : k8s::ReadControl::stop;
  }

  std::size_t most_;
  std::size_t objects_ = 0;
};

/// The result of reading a body.
struct Outcome {
  BodyReader::State state = BodyReader::State::good;
  bool whole = false;
  bool operator==(const Outcome&) const = default;
};

Outcome read_whole(const Question& question, std::string_view body, Reports& reported) {
  const auto reader = question.reader();
  const auto state = reader->feed(body, reported);
  return {state, reader->whole()};
}

Outcome read_pieces(const Question& question, std::string_view body, std::string_view sizes,
                    Reports& reported) {
  const auto reader = question.reader();
  auto state = BodyReader::State::good;
  in_pieces(body, sizes, [&](std::string_view piece, std::size_t) {
    state = reader->feed(piece, reported);
    return state == BodyReader::State::good;
  });
  return {state, reader->whole()};
}

/// Checks that the other reader of JSON lists, that of manifests, finds the same items.
void check_cut(std::string_view body, const Reports& reported) {
  const auto cut = k8s::cut_object(body);
  require(!cut.broken_at, "a whole list is an object");
  require(std::ranges::equal(cut.items, reported.items), "both readers of lists find the same items");
}

void frame(const Question& question, std::string_view body, std::string_view sizes) {
  Reports reported(question.most);
  const auto outcome = read_whole(question, body, reported);
  Reports told_in_pieces(question.most);
  const auto outcome_in_pieces = read_pieces(question, body, sizes, told_in_pieces);
  require(reported.parts == told_in_pieces.parts, "pieces give the frames of the whole");
  require(outcome == outcome_in_pieces, "pieces end as the whole does");
  if (question.is_json && question.shape == Shape::list && outcome.whole) {
    check_cut(body, reported);
  }
}

}  // namespace
}  // namespace lb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lb::fuzz::Input input(data, size);
  const lb::fuzz::Question question(input.byte());
  const auto sizes = input.counted();
  lb::fuzz::frame(question, input.rest(), sizes);
  return 0;
}
