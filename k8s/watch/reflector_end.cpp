// SPDX-License-Identifier: Apache-2.0
// Handles the end of a response: chooses the next request, and its time.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "k8s/encoding/problem.hpp"
#include "k8s/watch/reflector.hpp"
#include "k8s/watch/reflector_text.hpp"

namespace lb::k8s {
namespace {

/// A watch that ends sooner without an event counts as a failure, to avoid a hot loop.
constexpr Time min_watch{1'000};
/// A watch that lasted this long was a success, however it ended.
constexpr Time good_watch{5'000};
/// Upper limit for a server's Retry-After.
constexpr Time max_retry_after{120'000};

std::string_view end_text(End how) {
  switch (how) {
    case End::truncated:
      return "the connection broke off";
    case End::unreachable:
      return "the server cannot be reached";
    case End::timed_out:
      return "the server fell silent";
    default:
      return "the response was aborted";
  }
}

/// A server's error message names the account and the missing right at its end, so it needs more room than a
/// quoted field of an object.
constexpr std::size_t max_refusal_bytes = 300;

std::string refusal_text(unsigned code, std::string_view message) {
  auto text = fmt::format("the server answers {}", code);
  if (!message.empty()) {
    text += fmt::format(": \"{}\"{}", start_of(message, max_refusal_bytes),
                        message.size() > max_refusal_bytes ? "..." : "");
  }
  if (code == 403) {
    text += "; k8s/deploy/account.yaml grants what the agent reads";
  }
  return text;
}

}  // namespace

void Query::add(std::string_view name, std::string_view value) {
  if (value.empty()) {
    return;
  }
  text_ += separator_;
  text_ += name;
  text_ += '=';
  for (const char c : value) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
    text_ += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  separator_ = '&';
}

std::optional<ApiEncoding> encoding_of(std::string_view content_type) {
  const auto type = content_type.substr(0, content_type.find_first_of("; "));
  if (type == json_type) {
    return ApiEncoding::json;
  }
  return type == protobuf_type ? std::optional(ApiEncoding::protobuf) : std::nullopt;
}

std::string printable_type(std::string_view content_type) {
  return content_type.empty() ? "no stated encoding" : rules::quoted(content_type);
}

void Reflector::succeeded() {
  failure_ = Failure::none;
  last_failure_.clear();
}

Time Reflector::jittered(Time pause) {
  const auto quarter = static_cast<std::uint32_t>(pause.count() / 4);
  return pause - Time(quarter) + Time(random_() % (2 * quarter + 1));
}

Time Reflector::max_pause(Failure failure) const {
  switch (failure) {
    case Failure::unreachable:
      return timeouts_.unreachable;
    case Failure::overloaded:
      return timeouts_.overloaded;
    case Failure::stale:
      return std::min(timeouts_.refused, timeouts_.stale / 4);
    default:
      return timeouts_.refused;
  }
}

void Reflector::again(Time now, Failure failure) {
  if (std::exchange(failure_, failure) != failure) {
    failure_since_ = now;
    failures_ = 0;
  }
  const bool asking_hurts = failure == Failure::overloaded || failure == Failure::relist;
  const auto doublings = std::min(failures_++, asking_hurts ? 10U : 1U);
  const auto eighth = asking_hurts ? Time(0) : (now - failure_since_) / 8;
  const auto grown = std::max(timeouts_.first_pause * (1U << doublings), eighth);
  auto pause = jittered(std::min(max_pause(failure), grown));
  const auto asked = retry_after_ != 0 ? Time(std::chrono::seconds(retry_after_)) : Time(0);
  pause = std::max(pause, std::min(asked, max_retry_after));
  not_before_ = deadline_ = now + pause;
  say(why_, pause);
}

/// Reports the same failure in a row only once.
void Reflector::say(std::string_view what, Time pause) {
  if (what.empty() || what == last_failure_) {
    return;
  }
  const auto report = listener_.failure(fmt::format(
      "{}: {}{}; trying again in {:.1f} s", resource_.path, what,
      detail_.empty() ? "" : fmt::format(" ({})", detail_), static_cast<double>(pause.count()) / 1000));
  if (report == FailureReport::reported) {
    last_failure_ = what;
  }
}

void Reflector::end(End how, Time now, std::string detail) {
  detail_ = std::move(detail);
  not_before_ = deadline_ = now;
  if (mode_ == Mode::watch && head_.status == 200 && now - begun_ >= good_watch) {
    succeeded();
  }
  const bool answered_no = how == End::complete && head_.status != 0 && head_.status != 200;
  // the body is longer than any Status
  const bool answered_too_much = how == End::stopped && !reader_ && head_.status != 0;
  if (result_ != Result::open) {
    finish_request(now);
  } else if (answered_no || answered_too_much) {
    refused(now);
  } else if (how == End::complete && reader_ && reader_->whole()) {
    body_ended(now);
  } else if (quiet(how)) {
    watch_was_quiet();
  } else {
    failed(how == End::complete ? End::truncated : how, now);
  }
}

bool Reflector::quiet(End how) const {
  return how == End::timed_out && mode_ == Mode::watch && result_ == Result::open && reader_ &&
         reader_->whole();
}

/// Either nothing happened, or the server is gone: the probe on a new connection shows which.
void Reflector::watch_was_quiet() {
  ++counts_.quiet;
  connection_ = Connection::fresh;
  mode_ = Mode::probe;
}

/// The body is complete: a page of a list, or a watch whose timeout ended.
void Reflector::body_ended(Time now) {
  switch (mode_) {
    case Mode::list:
      if (meta_.version < seen_ || meta_.version == 0) {
        (void)give_up(meta_.version == 0 ? Result::broken : Result::stale,
                      meta_.version == 0 ? "sent a list without a version" : "answers with stale data");
        finish_request(now);
        return;
      }
      page_ended();
      return;
    case Mode::probe:
      if (meta_.version != 0 && meta_.version < seen_) {
        (void)give_up(Result::stale, "answers with stale data");
        finish_request(now);
        return;
      }
      stale_since_.reset();
      mode_ = Mode::watch;
      if (restored_ == Restored::suspected) {
        restored_ = Restored::believed;
      }
      if (unfinished_ || restored_ == Restored::believed) {
        start_list(now);
      }
      return;
    case Mode::streaming_list:
      failed(End::truncated, now);  // before its end bookmark
      return;
    case Mode::watch:
      watch_ended(now);
      return;
  }
}

/// A watch that ended before its requested timeout: the server shuts down, and its successor may be another
/// one, or restored.
void Reflector::watch_ended(Time now) {
  if (now - begun_ < std::chrono::seconds(timeouts_.min_watch_seconds)) {
    mode_ = Mode::probe;
  }
  if (events_ == 0 && now - begun_ < min_watch) {
    why_ = "the server ends watches at once";
    again(now, Failure::refused);
  }
}

void Reflector::page_ended() {
  more_ = meta_.more;
  if (more_.empty()) {
    list_complete(meta_.version);
  }
}

/// An ERROR event: a Status whose code has the meaning of an HTTP status (KEP-3157: a rejected streaming list
/// may also arrive as such).
ReadControl Reflector::error_event(std::string_view bytes) {
  const auto status = encoding_->status(bytes);
  if (!status) {
    return give_up(Result::broken, "sent an error that cannot be read");
  }
  retry_after_ = status->retry_after;
  auto why = fmt::format("received the error {} {}", status->code, rules::quoted(status->message));
  if (status->code == 410) {
    return give_up(Result::relist, std::move(why));
  }
  if (mode_ == Mode::streaming_list && status->code != 429 && status->code != 503) {
    return give_up(Result::chunked, std::move(why));
  }
  const bool keeps = status->code == 429 || status->code >= 500 || status->code == 0;
  return give_up(keeps ? Result::retry : Result::relist, std::move(why));
}

/// A response with a status other than 200.
void Reflector::refused(Time now) {
  const auto status = encoding_ != nullptr ? encoding_->status(error_body_) : std::nullopt;
  const auto code = head_.status;
  why_ = refusal_text(code, status ? std::string_view(status->message) : std::string_view());
  const auto in_body = status ? status->retry_after : 0U;
  retry_after_ =
      head_.retry_after
          ? static_cast<std::uint32_t>(std::clamp<std::int64_t>(head_.retry_after->count(), 0, 3600))
          : in_body;
  if (code >= 300 && code < 400) {
    why_ += " (redirects are not followed)";
  }
  if (code == 404 && resource_.presence == Presence::optional) {
    not_before_ = deadline_ = now + jittered(timeouts_.absent);
    return;
  }
  if (code == 410) {
    result_ = mode_ == Mode::list && !more_.empty() ? Result::whole_list : Result::relist;
  } else if ((code == 400 || code == 422) && mode_ == Mode::streaming_list) {
    result_ = Result::chunked;
  } else if (code == 406 || code == 415) {
    preferred_ = ApiEncoding::json;
    result_ = Result::retry;
  } else {
    result_ = code == 400 && mode_ == Mode::watch ? Result::relist : Result::retry;
  }
  finish_request(now);
}

/// The response is incomplete, without an error from the server.
void Reflector::failed(End how, Time now) {
  why_ = end_text(how);
  connection_ = Connection::fresh;
  if (mode_ == Mode::streaming_list && head_.status == 200) {
    streaming_list_failed(how, now);
  }
  if (listing()) {
    const auto mode = mode_;
    start_list(now);
    mode_ = mode;
  } else {
    mode_ = Mode::probe;  // the address may lead to another server, or to a restored one
  }
  const bool gone = how == End::unreachable || (how == End::truncated && head_.status == 0);
  again(now, gone ? Failure::unreachable : Failure::refused);
}

/// Continues with a list in pages: for a while if the server did not complete the list in time, else once.
void Reflector::streaming_list_failed(End how, Time now) {
  if (how == End::timed_out) {
    why_ = "the server does not complete its streaming list; it is listed in pages for a while";
    pages_until_ = now + timeouts_.pages;
  } else if (++streaming_cuts_ < 2) {
    return;
  }
  mode_ = Mode::list;
  streaming_cuts_ = 0;
}

void Reflector::finish_request(Time now) {
  switch (result_) {
    case Result::whole_list:
      whole_list_ = true;
      start_list(now);
      mode_ = Mode::list;
      return;
    case Result::chunked:
      streaming_refused_ = true;
      start_list(now);
      return;
    case Result::relist:
      start_list(now);
      again(now, Failure::relist);
      return;
    case Result::stale:
      finish_stale(now);
      return;
    case Result::broken:
      failed(End::truncated, now);
      return;
    case Result::retry:
      connection_ = head_.status == 429 ? Connection::any : Connection::fresh;
      if (listing()) {
        more_.clear();
        ++round_;
      } else {
        mode_ = Mode::probe;
      }
      again(now, head_.status == 429 ? Failure::overloaded : Failure::refused);
      return;
    case Result::open:
      return;
  }
}

/// A lagging server catches up, or another one answers. If that does not happen, etcd was restored, and the
/// server's state is accepted as current: all known versions are reset (REL-76).
void Reflector::finish_stale(Time now) {
  connection_ = Connection::fresh;
  stale_since_ = stale_since_.value_or(now);
  if (listing()) {
    restored_ = Restored::suspected;
  }
  why_ = "the server answers with stale data";
  if (now - *stale_since_ < timeouts_.stale) {
    mode_ = Mode::probe;
    again(now, Failure::stale);
    return;
  }
  why_ = "the server's versions are lower for good (restored from a backup?): taking what it has";
  version_ = seen_ = 0;
  for (auto& [key, known] : known_) {
    known.version = 0;
  }
  start_list(now);
  say(why_, Time(0));
}

}  // namespace lb::k8s
