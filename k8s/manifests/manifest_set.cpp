// SPDX-License-Identifier: Apache-2.0
// Parses files to definitions, chooses the first file's definition, and reports the differences from earlier
// reports.
#include "k8s/manifests/manifest_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "k8s/encoding/documents.hpp"
#include "k8s/encoding/framing.hpp"
#include "k8s/encoding/text_position.hpp"

namespace lb::k8s {
namespace {

constexpr std::string_view keeps = "; the last good state stays";
/// Complaints about one file that are named.
constexpr std::size_t most_complaints = 100;

void erase_from(Sink& sink, const ObjectId& id) {
  switch (id.kind) {
    case Kind::service:
      sink.erase_service(id.key);
      break;
    case Kind::slice:
      sink.erase_slice(id.key);
      break;
    case Kind::node:
      sink.erase_node(id.key.name);
      break;
    case Kind::service_cidr:
      sink.erase_service_cidr(id.key.name);
      break;
    case Kind::other:
      break;
  }
}

bool blank(std::string_view text) { return skip_space(text, 0) == text.size(); }

}  // namespace

std::string ObjectId::text() const { return fmt::format("{} {}", kind_text(kind), key.text()); }

namespace {

/// Collects a file's definitions and problems.
class Reader final : public DocumentVisitor {
 public:
  Reader(ParsedManifest& parsed, Decoder& decoder, const std::atomic<bool>& stopped)
      : parsed_(parsed), decoder_(decoder), stopped_(stopped) {}

  void object(std::string_view json, Kind expected, std::size_t line) override {
    if (stopped_) {
      return;
    }
    auto decoded = decoder_.decode(json, expected);
    complain(json, decoded, line);
    const bool named = decoded.kind != Kind::other && !decoded.key.name.empty();
    switch (decoded.result) {
      case DecodeResult::object:
        define({decoded.kind, decoded.key}, std::make_shared<const Object>(std::move(*decoded.object)), line);
        break;
      case DecodeResult::absent:
        define({decoded.kind, decoded.key}, nullptr, line);
        break;
      case DecodeResult::refused:
        if (named) {
          parsed_.refused.push_back({decoded.kind, decoded.key});
        } else {
          parsed_.broken = true;
        }
        break;
      case DecodeResult::foreign:
        break;
    }
  }

  void broken(std::size_t line, std::string reason) override {
    parsed_.broken = true;
    complain("", line, std::move(reason) + std::string(keeps));
  }

  void complain(std::string object, std::size_t line, std::string reason) {
    if (parsed_.complaints.size() > most_complaints) {
      parsed_.complaints.pop_back();
    }
    if (parsed_.complaints.size() == most_complaints) {
      object.clear();
      reason = fmt::format("{} more complaints about this file", ++left_out_);
    }
    parsed_.complaints.push_back(
        {std::move(object), fmt::format("{}:{}", parsed_.file, line), std::move(reason)});
  }

 private:
  void define(const ObjectId& id, std::shared_ptr<const Object> object, std::size_t line) {
    const auto [first, is_new] = parsed_.definitions.try_emplace(id, Definition{std::move(object), line});
    if (!is_new) {
      complain(id.text(), line, fmt::format("is already defined in line {}, which wins", first->second.line));
    }
  }

  void complain(std::string_view json, const Decoded& decoded, std::size_t line) {
    const auto object = decoded.key.name.empty() ? "" : ObjectId{decoded.kind, decoded.key}.text();
    for (const auto& problem : decoded.problems) {
      const auto at = decoded.broken_at ? *decoded.broken_at : locate(json, problem.pointer);
      const auto path = field_path(problem.pointer);
      const bool refused = decoded.result == DecodeResult::refused && &problem == &decoded.problems.back();
      complain(object, line + line_at(json, at),
               fmt::format("{}{}{}{}", path, path.empty() ? "" : " ", problem.reason, refused ? keeps : ""));
    }
  }

  ParsedManifest& parsed_;
  Decoder& decoder_;
  const std::atomic<bool>& stopped_;
  std::size_t left_out_ = 0;
};

}  // namespace

ParsedManifest parse_manifest(const std::string& file, std::string_view text, Decoder& decoder,
                              const std::atomic<bool>& stopped) {
  ParsedManifest parsed{.file = file, .definitions = {}, .refused = {}, .complaints = {}};
  Reader reader(parsed, decoder, stopped);
  if (blank(text)) {
    reader.broken(1, "is empty (to delete its objects, delete the file)");
  } else {
    read_documents(text, file.ends_with(".json") ? Format::json : Format::yaml, reader);
  }
  return parsed;
}

ManifestSet::ManifestSet(Sink& sink) : sink_(sink), decoder_(json_decoder(Origin::manifest)) {}

void ManifestSet::put(const std::string& file, std::string_view text, TimePoint now) {
  put(parse_manifest(file, text, *decoder_, false), now);
}

void ManifestSet::put(ParsedManifest parsed, TimePoint now) {
  const auto& before = files_[parsed.file];
  for (const auto& id : parsed.refused) {
    if (const auto old = before.find(id); old != before.end()) {
      parsed.definitions.insert(*old);
    }
  }
  if (parsed.broken) {
    // Does not replace definitions that the file still has.
    parsed.definitions.insert(before.begin(), before.end());
  }
  complaints_.set(parsed.file, std::move(parsed.complaints), now);
  replace(parsed.file, std::move(parsed.definitions));
}

void ManifestSet::unreadable(const std::string& file, std::string reason, TimePoint now) {
  complaints_.set(file, {{"", file, std::move(reason) + std::string(keeps)}}, now);
}

void ManifestSet::erase(const std::string& file, TimePoint now) {
  complaints_.set(file, {}, now);
  replace(file, {});
}

void ManifestSet::replace(const std::string& file, Definitions definitions) {
  while (pending_.contains(file)) {
    note_next_change();
  }
  pending_.insert(file);
  auto& held = files_[file];
  auto former = std::exchange(held, std::move(definitions));
  replacements_.push_back({file, std::move(former), held.begin()});
}

/// Visits one definition: first the present ones of a file, then its former ones.
void ManifestSet::note_next_change() {
  auto& [file, former, next] = replacements_.front();
  const auto& present = files_[file];
  if (next != present.end()) {
    owners_[next->first].insert(file);
    changed_.insert(next->first);
    ++next;
  } else if (!former.empty()) {
    const auto old = former.extract(former.begin());
    if (!present.contains(old.key())) {
      owners_[old.key()].erase(file);
      changed_.insert(old.key());
    }
  } else {
    if (present.empty()) {
      files_.erase(file);
    }
    pending_.erase(file);
    replacements_.pop_front();
  }
}

std::shared_ptr<const Object> ManifestSet::winner(const ObjectId& id) const {
  const auto owners = owners_.find(id);
  if (owners == owners_.end() || owners->second.empty()) {
    return nullptr;
  }
  return files_.at(*owners->second.begin()).at(id).object;
}

void ManifestSet::complain_of_rivals(const ObjectId& id, TimePoint now) {
  std::vector<Complaint> complaints;
  const auto& owners = owners_[id];
  for (const auto& file : owners) {
    if (file != *owners.begin()) {
      complaints.push_back({id.text(), fmt::format("{}:{}", file, files_.at(file).at(id).line),
                            fmt::format("is already defined in {}, which wins", *owners.begin())});
    }
  }
  complaints_.set("object " + id.text(), std::move(complaints), now);
  if (owners.empty()) {
    owners_.erase(id);
  }
}

void ManifestSet::report(const ObjectId& id, const std::shared_ptr<const Object>& object) {
  if (!object) {
    reported_.erase(id);
    erase_from(sink_, id);
    return;
  }
  reported_[id] = object;
  std::visit([this](const auto& value) { sink_.upsert(std::remove_cvref_t<decltype(value)>(value)); },
             *object);
}

void ManifestSet::decide_next(TimePoint now) {
  const auto node = changed_.extract(changed_.begin());
  const auto& id = node.value();
  complain_of_rivals(id, now);
  auto object = winner(id);
  const auto reported = reported_.find(id);
  if (!object && reported != reported_.end()) {
    deletions_.push_back(id);
  } else if (object && (reported == reported_.end() || *reported->second != *object)) {
    upserts_.emplace_back(id, std::move(object));
  } else if (object) {
    reported->second = std::move(object);  // equal: keep only one copy
  }
}

void ManifestSet::report_next() {
  if (!deletions_.empty()) {
    report(deletions_.front(), nullptr);
    deletions_.pop_front();
  } else {
    report(upserts_.front().first, upserts_.front().second);
    upserts_.pop_front();
  }
  reported_some_ = true;
}

bool ManifestSet::apply_some(TimePoint now, std::size_t most) {
  for (; most > 0; --most) {
    if (!replacements_.empty()) {
      note_next_change();
    } else if (!changed_.empty()) {
      decide_next(now);
    } else if (!deletions_.empty() || !upserts_.empty()) {
      report_next();
    } else {
      if (std::exchange(reported_some_, false)) {
        sink_.flush();
      }
      return false;
    }
  }
  return true;
}

void ManifestSet::apply(TimePoint now) {
  constexpr std::size_t part = 4096;
  while (apply_some(now, part)) {
  }
}

}  // namespace lb::k8s
