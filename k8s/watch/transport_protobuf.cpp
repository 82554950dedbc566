// SPDX-License-Identifier: Apache-2.0
// Parses protobuf bodies: a list's envelope field by field, a watch as length-prefixed frames.
#include <fmt/format.h>

#include <algorithm>

#include "k8s/encoding/protobuf.hpp"
#include "k8s/encoding/protobuf_walk.hpp"
#include "k8s/encoding/rules.hpp"
#include "k8s/watch/transport_body.hpp"

namespace lb::k8s {
namespace {

using protobuf::Message;
using State = BodyReader::State;

/// A base-128 number and its encoded length.
struct Varint {
  std::uint64_t value = 0;
  std::size_t bytes = 0;  ///< 0: incomplete
  bool broken = false;    ///< longer than ten bytes
};

Varint read_varint(std::string_view text) {
  Varint number;
  for (std::size_t i = 0; i < std::min<std::size_t>(text.size(), 10); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    number.value |= static_cast<std::uint64_t>(byte & 0x7fU) << (7 * i);
    if (byte < 0x80) {
      number.bytes = i + 1;
      return number;
    }
  }
  number.broken = text.size() >= 10;
  return number;
}

/// The head of one field: its tag, the start of its value, and its length.
struct FieldHead {
  std::uint64_t tag = 0;
  std::size_t begin = 0;  ///< 0: incomplete
  std::uint64_t size = 0;
  bool broken = false;
};

FieldHead read_field(std::string_view text) {
  FieldHead field;
  const auto key = read_varint(text);
  field.broken = key.broken;
  if (key.bytes == 0) {
    return field;
  }
  field.tag = key.value >> 3U;
  const auto wire_type = key.value & 7U;
  const auto rest = read_varint(text.substr(key.bytes));
  if (wire_type == 1 || wire_type == 5) {
    field.begin = key.bytes;
    field.size = wire_type == 1 ? 8 : 4;
  } else if (wire_type != 0 && wire_type != 2) {
    field.broken = true;
  } else if (rest.bytes == 0) {
    field.broken = rest.broken;
  } else {
    field.begin = key.bytes + rest.bytes;
    field.size = wire_type == 2 ? rest.value : 0;
  }
  return field;
}

std::optional<ListMeta> read_list_meta(std::string_view bytes) {
  try {
    ListMeta meta;
    for (Message message(bytes); message.next();) {
      switch (message.tag()) {
        case 2:
          meta.version = rules::version_number(message.bytes());
          break;
        case 3:
          meta.more = message.bytes();
          break;
        default:
          message.skip();
      }
    }
    return meta;
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

class ProtobufListReader final : public BodyReader {
 public:
  State feed(std::string_view bytes, BodySink& sink) override {
    text_ += bytes;
    while (state_ == State::good && step(sink)) {
    }
    text_.erase(0, at_);
    at_ = 0;
    return state_;
  }
  [[nodiscard]] bool whole() const override {
    return state_ == State::good && inside_ == Inside::envelope && text_.empty() && list_seen_;
  }

 private:
  enum class Inside : std::uint8_t { magic, envelope, list };

  bool step(BodySink& sink);
  bool magic(std::string_view rest);
  bool field(std::string_view rest, BodySink& sink);
  void list_field(std::uint64_t tag, std::string_view value, BodySink& sink);
  bool use(std::size_t size) {
    at_ += size;
    list_left_ -= std::min<std::uint64_t>(size, list_left_);
    return true;
  }
  bool broken() {
    state_ = State::broken;
    return false;
  }

  std::string text_;
  std::size_t at_ = 0;
  Inside inside_ = Inside::magic;
  State state_ = State::good;
  bool list_seen_ = false;
  std::uint64_t list_left_ = 0;  ///< remaining bytes of the list message
};

bool ProtobufListReader::step(BodySink& sink) {
  if (inside_ == Inside::list && list_left_ == 0) {
    inside_ = Inside::envelope;
  }
  const auto rest = std::string_view(text_).substr(at_);
  if (rest.empty()) {
    return false;
  }
  return inside_ == Inside::magic ? magic(rest) : field(rest, sink);
}

bool ProtobufListReader::magic(std::string_view rest) {
  if (rest.size() < protobuf_magic.size()) {
    return false;
  }
  if (!rest.starts_with(protobuf_magic)) {
    return broken();
  }
  inside_ = Inside::envelope;
  return use(protobuf_magic.size());
}

bool ProtobufListReader::field(std::string_view rest, BodySink& sink) {
  const auto head = read_field(rest);
  if (head.broken) {
    return broken();
  }
  if (head.begin == 0) {
    return false;
  }
  if (inside_ == Inside::envelope && head.tag == 2) {
    inside_ = Inside::list;
    list_seen_ = true;
    at_ += head.begin;
    list_left_ = head.size;
    return true;
  }
  if (head.size > max_object_bytes || (inside_ == Inside::list && head.begin + head.size > list_left_)) {
    return broken();
  }
  if (rest.size() < head.begin + head.size) {
    return false;
  }
  if (inside_ == Inside::list) {
    list_field(head.tag, rest.substr(head.begin, head.size), sink);
  }
  return use(head.begin + head.size);
}

void ProtobufListReader::list_field(std::uint64_t tag, std::string_view value, BodySink& sink) {
  if (tag == 1) {
    if (auto meta = read_list_meta(value)) {
      sink.list_meta(std::move(*meta));
    } else {
      state_ = State::broken;
    }
  } else if (tag == 2 && sink.item(value) == ReadControl::stop) {
    state_ = State::stopped;
  }
}

/// Frames of a four-byte big-endian length and a WatchEvent{type, object{raw}}.
class ProtobufWatchReader final : public BodyReader {
 public:
  State feed(std::string_view bytes, BodySink& sink) override {
    text_ += bytes;
    std::size_t at = 0;
    while (state_ == State::good && text_.size() - at >= 4) {
      const auto size = length(std::string_view(text_).substr(at, 4));
      if (size > max_object_bytes) {
        state_ = State::broken;
        break;
      }
      if (text_.size() - at - 4 < size) {
        break;
      }
      event(std::string_view(text_).substr(at + 4, size), sink);
      at += 4 + size;
    }
    text_.erase(0, at);
    return state_;
  }
  [[nodiscard]] bool whole() const override { return state_ == State::good && text_.empty(); }

 private:
  static std::size_t length(std::string_view bytes) {
    std::size_t value = 0;
    for (const char c : bytes) {
      value = value << 8U | static_cast<unsigned char>(c);
    }
    return value;
  }

  void event(std::string_view bytes, BodySink& sink);

  std::string text_;
  State state_ = State::good;
};

void ProtobufWatchReader::event(std::string_view bytes, BodySink& sink) {
  std::string_view type;
  std::string_view object;
  try {
    for (Message event(bytes); event.next();) {
      if (event.tag() == 1) {
        type = event.bytes();
      } else if (event.tag() == 2) {
        for (Message extension(event.bytes()); extension.next();) {
          if (extension.tag() == 1) {
            object = extension.bytes();
          } else {
            extension.skip();
          }
        }
      } else {
        event.skip();
      }
    }
  } catch (const protozero::exception&) {
    object = {};
  }
  if (object.empty()) {
    state_ = State::broken;
  } else if (sink.event(event_type(type), object) == ReadControl::stop) {
    state_ = State::stopped;
  }
}

/// Reads the ObjectMeta fields of a bookmark.
Bookmark read_bookmark(std::string_view metadata) {
  Bookmark bookmark;
  wire::Pairs annotations;
  for (Message message(metadata); message.next();) {
    switch (message.tag()) {
      case 6:
        bookmark.version = rules::version_number(message.bytes());
        break;
      case 12:
        protobuf::read_pair(message.bytes(), annotations);
        break;
      default:
        message.skip();
    }
  }
  bookmark.initial_end = std::ranges::any_of(annotations, [](const auto& pair) {
    return pair.first == initial_end_annotation && pair.second == "true";
  });
  return bookmark;
}

std::uint32_t read_retry_after(std::string_view details) {
  std::uint32_t seconds = 0;
  for (Message message(details); message.next();) {
    if (message.tag() == 5) {
      seconds = static_cast<std::uint32_t>(std::clamp<std::int64_t>(message.number(), 0, 3600));
    } else {
      message.skip();
    }
  }
  return seconds;
}

ApiStatus read_status(std::string_view bytes) {
  ApiStatus status;
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 3:
        status.message = message.bytes();
        break;
      case 4:
        status.reason = message.bytes();
        break;
      case 5:
        status.retry_after = read_retry_after(message.bytes());
        break;
      case 6:
        status.code = static_cast<unsigned>(std::clamp<std::int64_t>(message.number(), 0, 999));
        break;
      default:
        message.skip();
    }
  }
  return status;
}

class ProtobufEncoding final : public Encoding {
 public:
  [[nodiscard]] std::unique_ptr<BodyReader> list_reader() const override {
    return std::make_unique<ProtobufListReader>();
  }
  [[nodiscard]] std::unique_ptr<BodyReader> watch_reader() const override {
    return std::make_unique<ProtobufWatchReader>();
  }
  [[nodiscard]] std::optional<Bookmark> bookmark(std::string_view object) const override;
  [[nodiscard]] std::optional<ApiStatus> status(std::string_view object) const override;
  [[nodiscard]] Decoder& decoder() override { return *decoder_; }

 private:
  std::unique_ptr<Decoder> decoder_ = protobuf_decoder(Origin::api_server);
};

std::optional<Bookmark> ProtobufEncoding::bookmark(std::string_view object) const {
  const auto envelope = open_envelope(object);
  if (!envelope) {
    return std::nullopt;
  }
  try {
    Bookmark bookmark;
    for (Message message(envelope->message); message.next();) {
      if (message.tag() == 1) {
        bookmark = read_bookmark(message.bytes());
      } else {
        message.skip();
      }
    }
    return bookmark.version != 0 ? std::optional(bookmark) : std::nullopt;
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

std::optional<ApiStatus> ProtobufEncoding::status(std::string_view object) const {
  const auto envelope = open_envelope(object);
  if (!envelope || envelope->kind != "Status") {
    return std::nullopt;
  }
  try {
    return read_status(envelope->message);
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::unique_ptr<Encoding> protobuf_encoding() { return std::make_unique<ProtobufEncoding>(); }

}  // namespace lb::k8s
