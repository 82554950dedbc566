// SPDX-License-Identifier: Apache-2.0
// One HTTP/1.1 response: received in any pieces, it gives the same result as in one piece. Input: the number
// of piece sizes, these sizes, the response.
#include <fmt/format.h>

#include <string>

#include "k8s/client/http_response.hpp"
#include "tests/fuzz/input.hpp"

namespace lb::fuzz {
namespace {

using k8s::HttpResponse;
using State = HttpResponse::State;

/// Records everything in a response as text.
class Reports final : public k8s::ResponseHandler {
 public:
  k8s::ReadControl head(const k8s::ApiHead& head) override {
    heads += fmt::format("{} {} {};", head.status, head.content_type,
                         head.retry_after ? head.retry_after->count() : -1);
    return k8s::ReadControl::proceed;
  }
  k8s::ReadControl body(std::string_view bytes) override {
    require(!heads.empty(), "the head comes first");
    content += bytes;
    return k8s::ReadControl::proceed;
  }
  void end(k8s::End /*how*/, std::string /*detail*/) override {
    require(false, "an answer does not tell its end");
  }

  std::string heads;
  std::string content;
  bool operator==(const Reports& other) const { return heads == other.heads && content == other.content; }
};

/// The state after the bytes, and after the connection's end.
struct Outcome {
  State fed = State::open;
  State closed = State::open;
  bool keeps = false;
  /// If the response comes in several pieces, Beast may report an error only at the connection's end that it
  /// reports at once for a single piece.
  bool operator==(const Outcome& other) const {
    return closed == other.closed && (closed == State::broken || (fed == other.fed && keeps == other.keeps));
  }
};

Outcome end(HttpResponse& answer, State fed) {
  require(fed == State::broken || answer.problem().empty(), "only what is broken has a problem");
  require(fed != State::broken || !answer.problem().empty(), "what is broken has a problem");
  return {fed, fed == State::open ? answer.close() : fed, fed == State::whole && answer.keep_alive()};
}

Outcome read_whole(std::string_view bytes, Reports& reported) {
  HttpResponse answer(reported);
  return end(answer, answer.feed(bytes));
}

/// Bytes after the end make a response invalid, whether or not they come together with it: the connection's
/// owner checks that.
Outcome read_pieces(std::string_view bytes, std::string_view sizes, Reports& reported) {
  HttpResponse answer(reported);
  auto state = State::open;
  std::size_t fed = 0;
  in_pieces(bytes, sizes, [&](std::string_view piece, std::size_t so_far) {
    state = answer.feed(piece);
    fed = so_far;
    return state == State::open;
  });
  if (state == State::whole && fed < bytes.size()) {
    return {State::broken, State::broken, false};
  }
  return end(answer, state);
}

}  // namespace
}  // namespace lb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lb::fuzz;  // NOLINT(google-build-using-namespace): a function
  Input input(data, size);
  const auto sizes = input.counted();
  Reports reported;
  const auto outcome = read_whole(input.rest(), reported);
  Reports told_in_pieces;
  const auto outcome_in_pieces = read_pieces(input.rest(), sizes, told_in_pieces);
  require(outcome == outcome_in_pieces, "pieces end as the whole does");
  require(reported == told_in_pieces, "pieces tell what the whole tells");
  return 0;
}
