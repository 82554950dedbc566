// SPDX-License-Identifier: Apache-2.0
// The states of a list and watch: chooses the next request, and interprets responses.
#include "k8s/watch/reflector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "k8s/watch/reflector_text.hpp"

namespace lb::k8s {

/// Passes the parts of a body to the reflector.
class Reflector::Sink final : public BodySink {
 public:
  explicit Sink(Reflector& reflector) : reflector_(reflector) {}
  void list_meta(ListMeta meta) override { reflector_.list_meta(std::move(meta)); }
  ReadControl item(std::string_view object) override { return reflector_.object(object); }
  ReadControl event(EventType type, std::string_view object) override {
    return reflector_.event(type, object);
  }

 private:
  Reflector& reflector_;
};

Reflector::Reflector(Resource resource, ApiEncoding encoding, Timeouts timeouts, std::uint32_t seed,
                     Listener& listener)
    : resource_(std::move(resource)),
      preferred_(encoding),
      timeouts_(timeouts),
      random_(seed),
      listener_(listener),
      encodings_{protobuf_encoding(), json_encoding()} {
  start_list(Time(0));
}

Reflector::~Reflector() = default;

// ---- Requests. ----

void Reflector::start_list(Time now) {
  mode_ = streaming_refused_ || now < pages_until_ ? Mode::list : Mode::streaming_list;
  more_.clear();
  ++round_;
}

std::string Reflector::target() {
  Query query(resource_.path);
  query.add("labelSelector", resource_.label_selector);
  query.add("fieldSelector", resource_.field_selector);
  if (mode_ == Mode::watch || mode_ == Mode::streaming_list) {
    query.add("watch", "true");
    query.add("allowWatchBookmarks", "true");
    query.add("timeoutSeconds",
              std::to_string(timeouts_.min_watch_seconds + random_() % (timeouts_.min_watch_seconds + 1)));
  }
  switch (mode_) {
    case Mode::streaming_list:
      query.add("sendInitialEvents", "true");
      query.add("resourceVersionMatch", "NotOlderThan");
      break;
    case Mode::watch:
      query.add("resourceVersion", std::to_string(version_));
      break;
    case Mode::probe:
      query.add("limit", "1");
      break;
    case Mode::list:
      query.add("limit", whole_list_ ? "" : std::to_string(timeouts_.page));
      query.add("continue", more_);
      break;
  }
  return query.text();
}

/// Requests metadata only if wanted; a server that does not support that sends whole objects.
std::string Reflector::accept() const {
  std::string part;
  if (resource_.form == ObjectForm::metadata) {
    const bool list = mode_ == Mode::list || mode_ == Mode::probe;
    part = fmt::format(";as=PartialObjectMetadata{};g=meta.k8s.io;v=v1", list ? "List" : "");
  }
  auto text = preferred_ == ApiEncoding::json
                  ? fmt::format("{}{}", json_type, part)
                  : fmt::format("{}{},{}{}", protobuf_type, part, json_type, part);
  return part.empty() ? text : fmt::format("{},{}", text, json_type);
}

void Reflector::spread(Time now) { pause(now, fleet_jitter()); }

void Reflector::relist(Time now) {
  unfinished_ = true;
  start_list(now);
  pause(now, jittered(timeouts_.first_pause) + fleet_jitter());
}

Time Reflector::fleet_jitter() {
  const auto max_jitter = static_cast<std::uint32_t>(timeouts_.fleet_jitter.count());
  return Time(random_() % (max_jitter + 1));
}

/// A backoff under way is not extended: else a steady stream of events would postpone the request for ever.
void Reflector::pause(Time now, Time length) {
  if (now >= not_before_) {
    not_before_ = now + length;
  }
  deadline_ = not_before_;
}

std::optional<ApiRequest> Reflector::begin(Time now) {
  if (now < not_before_) {
    deadline_ = not_before_;
    return std::nullopt;
  }
  encoding_ = nullptr;
  reader_.reset();
  head_ = {};
  meta_ = {};
  error_body_.clear();
  result_ = Result::open;
  why_.clear();
  retry_after_ = 0;
  events_ = 0;
  begun_ = now;
  deadline_ = now + timeouts_.head;
  counts_.watches += mode_ == Mode::watch || mode_ == Mode::streaming_list ? 1 : 0;
  return ApiRequest{target(), accept(), std::exchange(connection_, Connection::any)};
}

// ---- Answers. ----

ReadControl Reflector::head(const ApiHead& head, Time now) {
  head_ = head;
  deadline_ = now + timeouts_.body;
  const auto encoding = encoding_of(head.content_type);
  if (encoding) {
    encoding_ = encodings_[static_cast<std::size_t>(*encoding)].get();
  }
  if (head.status != 200) {
    return ReadControl::proceed;
  }
  if (encoding_ == nullptr) {
    return give_up(Result::broken, fmt::format("answered in {}", printable_type(head.content_type)));
  }
  if (mode_ == Mode::watch && !last_failure_.empty()) {
    last_failure_.clear();
    (void)listener_.failure(resource_.path + ": the server answers again");
  }
  const bool events = mode_ == Mode::watch || mode_ == Mode::streaming_list;
  reader_ = events ? encoding_->watch_reader() : encoding_->list_reader();
  deadline_ = next_byte_by(now);
  return ReadControl::proceed;
}

Time Reflector::next_byte_by(Time now) const {
  if (mode_ == Mode::streaming_list) {
    return std::min(now + timeouts_.body, begun_ + timeouts_.streaming);
  }
  return now + (mode_ == Mode::watch ? timeouts_.watch : timeouts_.body);
}

ReadControl Reflector::body(std::string_view bytes, Time now) {
  if (!reader_) {
    error_body_ += bytes.substr(0, max_error_bytes - std::min(max_error_bytes, error_body_.size()));
    return error_body_.size() < max_error_bytes ? ReadControl::proceed : ReadControl::stop;
  }
  Sink sink(*this);
  const auto state = reader_->feed(bytes, sink);
  deadline_ = next_byte_by(now);
  if (state == BodyReader::State::broken) {
    return give_up(Result::broken, "sent what cannot be read");
  }
  return state == BodyReader::State::stopped ? ReadControl::stop : ReadControl::proceed;
}

ReadControl Reflector::give_up(Result result, std::string why) {
  counts_.unreadable += result == Result::broken ? 1 : 0;
  result_ = result;
  why_ = std::move(why);
  return ReadControl::stop;
}

void Reflector::list_meta(ListMeta meta) { meta_ = std::move(meta); }

ReadControl Reflector::object(std::string_view bytes) {
  if (mode_ == Mode::probe) {
    return ReadControl::proceed;
  }
  auto decoded = encoding_->decoder().decode(bytes, resource_.kind);
  return upserted(decoded);
}

ReadControl Reflector::event(EventType type, std::string_view bytes) {
  ++events_;
  if (type == EventType::bookmark) {
    return bookmark(bytes);
  }
  if (type == EventType::error) {
    return error_event(bytes);
  }
  auto decoded = encoding_->decoder().decode(bytes, resource_.kind);
  switch (type) {
    case EventType::upserted:
      return upserted(decoded);
    case EventType::deleted:
      return deleted(decoded);
    default:
      return give_up(Result::broken, "sent an event of an unknown type");
  }
}

void Reflector::report_problems(const Decoded& decoded) {
  for (const auto& problem : decoded.problems) {
    const auto place = field_path(problem.pointer);
    listener_.complain({fmt::format("{} {}", kind_text(resource_.kind), decoded.key.text()), "",
                        place.empty() ? problem.reason : place + " " + problem.reason});
  }
}

/// In a list: all objects up to version_ are known, so an unknown object with such a version, or one older
/// than known here, comes from a stale view. In a watch: all events are newer than version_.
bool Reflector::is_stale(const Decoded& decoded) const {
  if (decoded.version == 0 || (listing() && restored_ == Restored::believed)) {
    return false;
  }
  const auto known = known_.find(decoded.key);
  const bool older = known != known_.end() && decoded.version < known->second.version;
  const bool compares = version_ != 0 && (!listing() || known == known_.end());
  return older || (compares && decoded.version <= version_);
}

void Reflector::note_version(std::uint64_t version) {
  seen_ = std::max(seen_, version);
  if (mode_ == Mode::watch) {
    version_ = std::max(version_, version);
  }
}

ReadControl Reflector::upserted(Decoded& decoded) {
  report_problems(decoded);
  counts_.unreadable += decoded.result == DecodeResult::refused ? 1 : 0;
  if (decoded.key.name.empty()) {
    return ReadControl::proceed;  // the object cannot be identified
  }
  if (is_stale(decoded)) {
    return listing() ? give_up(Result::stale, "answers with stale data") : ReadControl::proceed;
  }
  auto& known = known_[decoded.key];
  known = {std::max(known.version, decoded.version), round_};
  unfinished_ = unfinished_ || listing();
  note_version(decoded.version);
  if (decoded.result == DecodeResult::object) {
    listener_.upsert(std::move(*decoded.object));
  } else if (decoded.result == DecodeResult::absent) {
    listener_.erase(resource_.kind, decoded.key);
  }
  return ReadControl::proceed;
}

ReadControl Reflector::deleted(const Decoded& decoded) {
  if (decoded.key.name.empty()) {
    report_problems(decoded);
    ++counts_.unreadable;
    return give_up(Result::relist, "received a deletion that cannot be read");
  }
  if (!listing() && is_stale(decoded)) {
    return ReadControl::proceed;
  }
  note_version(decoded.version);
  if (known_.erase(decoded.key) != 0) {
    listener_.erase(resource_.kind, decoded.key);
  }
  return ReadControl::proceed;
}

ReadControl Reflector::bookmark(std::string_view bytes) {
  const auto mark = encoding_->bookmark(bytes);
  if (!mark) {
    return give_up(Result::broken, "sent a bookmark that cannot be read");
  }
  if (mode_ == Mode::watch) {
    note_version(mark->version);
    return ReadControl::proceed;
  }
  if (!mark->initial_end) {
    return ReadControl::proceed;
  }
  if (mark->version < seen_) {
    return give_up(Result::stale, "answers with stale data");
  }
  list_complete(mark->version);
  return ReadControl::proceed;
}

/// Erases the objects whose round is not the list's: the list did not contain them.
void Reflector::list_complete(std::uint64_t version) {
  for (auto it = known_.begin(); it != known_.end();) {
    if (it->second.round == round_) {
      ++it;
      continue;
    }
    listener_.erase(resource_.kind, it->first);
    it = known_.erase(it);
  }
  version_ = seen_ = version;
  unfinished_ = false;
  mode_ = Mode::watch;
  more_.clear();
  whole_list_ = false;
  streaming_cuts_ = 0;
  stale_since_.reset();
  restored_ = Restored::no;
  if (failure_ != Failure::relist) {
    succeeded();  // after a relist only once its watch is good: lists are expensive
  }
  synced_ = true;
  listener_.listed(resource_.kind);
}

}  // namespace lb::k8s
