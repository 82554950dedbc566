// SPDX-License-Identifier: Apache-2.0
// Drives Beast's parser by hand, so that nothing here blocks; zlib decompresses its output.
#include "k8s/client/http_response.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <charconv>
#include <cstring>
#include <optional>

namespace lb::k8s {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;
using State = HttpResponse::State;

constexpr std::uint32_t max_head_bytes = 65536;
/// Limit for buffered bytes, such as a chunk's size line or a trailer.
constexpr std::size_t max_waiting_bytes = max_head_bytes + 4096;
constexpr std::size_t piece_bytes = 32768;

/// Decompresses a gzip stream piece by piece. The stream may have several members, one after another (RFC
/// 1952, 2.2): Kubernetes 1.37 sends one member per flush in a watch that begins with a list (feature
/// WatchListCompression).
class Gunzip {
 public:
  Gunzip() { good_ = ::inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK; }
  ~Gunzip() { ::inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  /// Decompresses `bytes` and passes the output to `handler`.
  State feed(std::string_view bytes, ResponseHandler& handler);
  /// Whether the last member is complete, or none has begun.
  [[nodiscard]] bool between_members() const { return between_members_; }
  [[nodiscard]] bool had_member() const { return had_member_; }

 private:
  z_stream stream_{};
  std::array<char, piece_bytes> piece_{};
  bool good_ = false;
  bool between_members_ = true;
  bool had_member_ = false;
};

State Gunzip::feed(std::string_view bytes, ResponseHandler& handler) {
  std::string input(bytes);  // zlib's input is not const
  stream_.next_in = reinterpret_cast<Bytef*>(input.data());
  stream_.avail_in = static_cast<uInt>(input.size());
  bool full = true;  // zlib may have more output for the input so far
  while (good_ && (stream_.avail_in > 0 || full)) {
    if (between_members_) {
      if (stream_.avail_in == 0) {
        break;
      }
      good_ = ::inflateReset(&stream_) == Z_OK;
      had_member_ = true;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_out = piece_bytes;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    const std::size_t size = piece_bytes - stream_.avail_out;
    full = stream_.avail_out == 0;
    between_members_ = result == Z_STREAM_END;
    good_ = good_ && (between_members_ || result == Z_OK || result == Z_BUF_ERROR);
    if (size > 0 && handler.body({piece_.data(), size}) == ReadControl::stop) {
      return State::stopped;
    }
  }
  return good_ ? State::open : State::broken;
}

std::optional<std::chrono::seconds> seconds(string_view text) {
  std::uint32_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc{} && stop == text.data() + text.size() && !text.empty()
             ? std::optional(std::chrono::seconds(count))
             : std::nullopt;
}

/// Passes header fields and body to the handler. Setting an error stops Beast; state() has the meaning.
class Parser final : public http::basic_parser<false> {
 public:
  explicit Parser(ResponseHandler& handler) : handler_(handler) {
    eager(true);
    header_limit(max_head_bytes);
    body_limit(boost::none);
  }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] unsigned status() const { return head_.status; }
  /// A compressed body has its own end. Without a Content-Length that end must have been reached.
  [[nodiscard]] bool body_whole() const {
    return !gunzip_ || (gunzip_->between_members() && (gunzip_->had_member() || !need_eof()));
  }

 private:
  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view, int, error_code& error) override {
    head_.status = static_cast<unsigned>(code);
    if (code < 100) {
      leave(State::broken, "is not HTTP: its status code is below 100", error);
    }
  }
  void on_field_impl(http::field name, string_view, string_view value, error_code& error) override;
  void on_header_impl(error_code& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code& error) override { return take(body, error); }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code& error) override {
    return take(body, error);
  }
  void on_finish_impl(error_code&) override {}

  std::size_t take(string_view body, error_code& error);
  void leave(State state, std::string problem, error_code& error) {
    state_ = state;
    problem_ = std::move(problem);
    error = http::error::need_buffer;
  }

  ResponseHandler& handler_;
  ApiHead head_;
  std::string coding_;
  bool head_passed_ = false;
  std::unique_ptr<Gunzip> gunzip_;
  State state_ = State::open;
  std::string problem_;
};

void Parser::on_field_impl(http::field name, string_view, string_view value, error_code&) {
  if (head_passed_) {
    return;  // a trailer field
  }
  switch (name) {
    case http::field::content_type:
      head_.content_type = std::string(value);
      break;
    case http::field::content_encoding:
      coding_ = std::string(value);
      break;
    case http::field::retry_after:
      head_.retry_after = seconds(value);
      break;
    default:
      break;
  }
}

void Parser::on_header_impl(error_code& error) {
  head_passed_ = true;
  if (head_.status < 200) {
    return;  // 1xx: the actual response follows
  }
  if (coding_ == "gzip") {
    gunzip_ = std::make_unique<Gunzip>();
  } else if (!coding_.empty() && coding_ != "identity") {
    leave(State::broken, "uses a content coding that was not asked for", error);
    return;
  }
  if (handler_.head(head_) == ReadControl::stop) {
    leave(State::stopped, "", error);
  }
}

std::size_t Parser::take(string_view body, error_code& error) {
  const std::string_view bytes(body.data(), body.size());
  const auto state = gunzip_                                     ? gunzip_->feed(bytes, handler_)
                     : handler_.body(bytes) == ReadControl::stop ? State::stopped
                                                                 : State::open;
  if (state != State::open) {
    leave(state, state == State::broken ? "is not gzip although it says so" : "", error);
  }
  return body.size();
}

}  // namespace

struct HttpResponse::Work {
  explicit Work(ResponseHandler& to) : handler(to), parser(std::in_place, to) {}

  State finish(State state, std::string text);
  State whole_or_next();

  ResponseHandler& handler;
  std::optional<Parser> parser;
  std::string waiting;  ///< unparsed bytes, which the parser needs again together with more
  bool begun = false;
  std::string problem;
};

State HttpResponse::Work::finish(State state, std::string text) {
  problem = std::move(text);
  return state;
}

State HttpResponse::Work::whole_or_next() {
  if (parser->status() < 200) {
    parser.emplace(handler);
    return State::open;
  }
  if (!waiting.empty()) {
    return finish(State::broken, "has bytes after its end");
  }
  return parser->body_whole() ? State::whole : finish(State::broken, "ends within its gzip");
}

HttpResponse::HttpResponse(ResponseHandler& handler) : work_(std::make_unique<Work>(handler)) {}
HttpResponse::~HttpResponse() = default;

State HttpResponse::feed(std::string_view bytes) {
  work_->begun = work_->begun || !bytes.empty();
  work_->waiting += bytes;
  while (!work_->waiting.empty()) {
    auto& parser = *work_->parser;
    error_code error;
    const auto used = parser.put(boost::asio::buffer(work_->waiting), error);
    work_->waiting.erase(0, used);
    if (parser.state() != State::open) {
      return work_->finish(parser.state(), parser.problem());
    }
    if (error && error != http::error::need_more) {
      return work_->finish(State::broken, fmt::format("is not HTTP: {}", error.message()));
    }
    if (parser.is_done()) {
      if (const auto state = work_->whole_or_next(); state != State::open) {
        return state;
      }
    } else if (error || used == 0) {
      break;
    }
  }
  return work_->waiting.size() > max_waiting_bytes ? work_->finish(State::broken, "has an endless line")
                                                   : State::open;
}

State HttpResponse::close() {
  error_code error;
  auto& parser = *work_->parser;
  if (parser.got_some()) {
    parser.put_eof(error);
  }
  if (error || !parser.is_done() || parser.status() < 200) {
    return work_->finish(State::broken, "ends before its end");
  }
  return work_->whole_or_next();
}

bool HttpResponse::keep_alive() const { return work_->parser->is_done() && work_->parser->keep_alive(); }
bool HttpResponse::begun() const { return work_->begun; }
const std::string& HttpResponse::problem() const { return work_->problem; }

}  // namespace lb::k8s
