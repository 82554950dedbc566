// SPDX-License-Identifier: Apache-2.0
// Parses JSON bodies: a list's top level member by member, a watch as a sequence of objects.
#include "k8s/watch/transport_body.hpp"

#include <charconv>

#include "k8s/encoding/framing.hpp"
#include "k8s/encoding/rules.hpp"

namespace lb::k8s {
namespace {

std::string_view unquoted(std::string_view value) {
  return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : std::string_view{};
}

/// Calls each(name, value) for an object's members, with escapes unchanged; false if the text is not an
/// object.
template <typename Each>
bool for_members(std::string_view object, Each each) {
  JsonCursor cursor(object);
  cursor.expect('{');
  if (cursor.take('}')) {
    return !cursor.broken();
  }
  do {
    const auto name = cursor.string();
    cursor.expect(':');
    const auto value = cursor.value();
    if (cursor.broken()) {
      return false;
    }
    each(name, value);
  } while (cursor.take(','));
  cursor.expect('}');
  return !cursor.broken();
}

std::uint32_t small_number(std::string_view text) {
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// A text that is appended to at its end and consumed from its front, value by value.
class JsonBuffer {
 public:
  void append(std::string_view bytes) { text_ += bytes; }
  void drop_used() {
    text_.erase(0, at_);
    scanned_ -= at_;
    at_ = 0;
  }
  [[nodiscard]] std::size_t held() const { return text_.size() - at_; }

  /// The next byte that is not white space, not consumed; 0: none yet.
  [[nodiscard]] char peek() {
    at_ = skip_space(text_, at_);
    scanned_ = at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip() { scanned_ = ++at_; }

  /// The next value; nullopt while it is incomplete. Each byte is scanned once.
  [[nodiscard]] std::optional<std::string_view> value() {
    if (scanned_ == at_) {
      if (peek() == '\0') {
        return std::nullopt;
      }
      scanner_ = ValueScanner();
    }
    const auto end = scanner_.scan(std::string_view(text_).substr(scanned_));
    if (!end) {
      scanned_ = text_.size();
      return std::nullopt;
    }
    const auto from = at_;
    at_ = scanned_ = scanned_ + *end;
    return std::string_view(text_).substr(from, at_ - from);
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
  std::size_t scanned_ = 0;  ///< within a value: position of its scanner
  ValueScanner scanner_;
};

class JsonListReader final : public BodyReader {
 public:
  State feed(std::string_view bytes, BodySink& sink) override {
    buffer_.append(bytes);
    while (state_ == State::good && step(sink)) {
    }
    buffer_.drop_used();
    if (buffer_.held() > max_object_bytes) {
      state_ = State::broken;
    }
    return state_;
  }
  [[nodiscard]] bool whole() const override { return state_ == State::good && next_ == Next::nothing; }

 private:
  enum class Next : std::uint8_t {
    open,
    first_name,
    name,
    colon,
    value,
    first_item,
    item,
    after_item,
    after_member,
    nothing
  };

  /// Whether more of the buffered bytes can be processed.
  bool step(BodySink& sink);
  bool punctuation(char c);
  bool value(BodySink& sink);
  void member(std::string_view value, BodySink& sink);

  /// Consumes `c` if it is `wanted`.
  bool take(char c, char wanted, Next next) {
    if (c != wanted) {
      return false;
    }
    buffer_.skip();
    next_ = next;
    return true;
  }

  JsonBuffer buffer_;
  Next next_ = Next::open;
  State state_ = State::good;
  std::string name_;
};

bool JsonListReader::value(BodySink& sink) {
  const auto value = buffer_.value();
  if (!value) {
    return false;
  }
  if (value->empty()) {
    state_ = State::broken;
  } else if (next_ == Next::name) {
    state_ = value->front() == '"' ? State::good : State::broken;
    name_ = unquoted(*value);
    next_ = Next::colon;
  } else if (next_ == Next::item) {
    state_ = sink.item(*value) == ReadControl::stop ? State::stopped : State::good;
    next_ = Next::after_item;
  } else {
    member(*value, sink);
    next_ = Next::after_member;
  }
  return true;
}

void JsonListReader::member(std::string_view value, BodySink& sink) {
  if (name_ != "metadata") {
    return;
  }
  ListMeta meta;
  for_members(value, [&](auto name, auto text) {
    if (name == "resourceVersion") {
      meta.version = rules::version_number(unquoted(text));
    } else if (name == "continue") {
      meta.more = unquoted(text);
    }
  });
  sink.list_meta(std::move(meta));
}

bool JsonListReader::punctuation(char c) {
  switch (next_) {
    case Next::open:
      return take(c, '{', Next::first_name);
    case Next::first_name:
      next_ = Next::name;
      return take(c, '}', Next::nothing) || c == '"';
    case Next::colon:
      return take(c, ':', Next::value);
    case Next::first_item:
      next_ = Next::item;
      return take(c, ']', Next::after_member) || c == '{';
    case Next::after_item:
      return take(c, ',', Next::item) || take(c, ']', Next::after_member);
    case Next::after_member:
      return take(c, ',', Next::name) || take(c, '}', Next::nothing);
    default:
      return false;
  }
}

bool JsonListReader::step(BodySink& sink) {
  if (next_ == Next::name || next_ == Next::item) {
    return value(sink);
  }
  if (next_ == Next::value && name_ != "items") {
    return value(sink);
  }
  const char c = buffer_.peek();
  if (c == '\0') {
    return false;
  }
  if (next_ == Next::value) {
    if (take(c, '[', Next::first_item)) {
      return true;
    }
    name_.clear();  // "items" that are not an array are a value like others
    return true;
  }
  if (!punctuation(c)) {
    state_ = State::broken;
  }
  return true;
}

class JsonWatchReader final : public BodyReader {
 public:
  State feed(std::string_view bytes, BodySink& sink) override {
    buffer_.append(bytes);
    while (state_ == State::good) {
      const auto value = buffer_.value();
      if (!value) {
        break;
      }
      event(*value, sink);
    }
    buffer_.drop_used();
    if (buffer_.held() > max_object_bytes) {
      state_ = State::broken;
    }
    return state_;
  }
  [[nodiscard]] bool whole() const override { return state_ == State::good && buffer_.held() == 0; }

 private:
  void event(std::string_view text, BodySink& sink) {
    std::string_view type;
    std::string_view object;
    const bool good = for_members(text, [&](auto name, auto value) {
      if (name == "type") {
        type = unquoted(value);
      } else if (name == "object") {
        object = value;
      }
    });
    if (!good || object.empty()) {
      state_ = State::broken;
    } else if (sink.event(event_type(type), object) == ReadControl::stop) {
      state_ = State::stopped;
    }
  }

  JsonBuffer buffer_;
  State state_ = State::good;
};

class JsonEncoding final : public Encoding {
 public:
  [[nodiscard]] std::unique_ptr<BodyReader> list_reader() const override {
    return std::make_unique<JsonListReader>();
  }
  [[nodiscard]] std::unique_ptr<BodyReader> watch_reader() const override {
    return std::make_unique<JsonWatchReader>();
  }
  [[nodiscard]] std::optional<Bookmark> bookmark(std::string_view object) const override;
  [[nodiscard]] std::optional<ApiStatus> status(std::string_view object) const override;
  [[nodiscard]] Decoder& decoder() override { return *decoder_; }

 private:
  std::unique_ptr<Decoder> decoder_ = json_decoder(Origin::api_server);
};

std::optional<Bookmark> JsonEncoding::bookmark(std::string_view object) const {
  Bookmark bookmark;
  const auto annotation = [&](auto name, auto value) {
    bookmark.initial_end = bookmark.initial_end || (name == initial_end_annotation && value == "\"true\"");
  };
  const auto metadata = [&](auto name, auto value) {
    if (name == "resourceVersion") {
      bookmark.version = rules::version_number(unquoted(value));
    } else if (name == "annotations") {
      for_members(value, annotation);
    }
  };
  for_members(object, [&](auto name, auto value) {
    if (name == "metadata") {
      for_members(value, metadata);
    }
  });
  return bookmark.version != 0 ? std::optional(bookmark) : std::nullopt;
}

std::optional<ApiStatus> JsonEncoding::status(std::string_view object) const {
  ApiStatus status;
  const auto details = [&](auto name, auto value) {
    if (name == "retryAfterSeconds") {
      status.retry_after = small_number(value);
    }
  };
  const bool good = for_members(object, [&](auto name, auto value) {
    if (name == "code") {
      status.code = small_number(value);
    } else if (name == "reason") {
      status.reason = unquoted(value);
    } else if (name == "message") {
      status.message = unquoted(value);
    } else if (name == "details") {
      for_members(value, details);
    }
  });
  return good ? std::optional(status) : std::nullopt;
}

}  // namespace

EventType event_type(std::string_view text) {
  if (text == "ADDED" || text == "MODIFIED") {
    return EventType::upserted;
  }
  if (text == "DELETED") {
    return EventType::deleted;
  }
  if (text == "BOOKMARK") {
    return EventType::bookmark;
  }
  return text == "ERROR" ? EventType::error : EventType::unknown;
}

std::unique_ptr<Encoding> json_encoding() { return std::make_unique<JsonEncoding>(); }

}  // namespace lb::k8s
