// SPDX-License-Identifier: Apache-2.0
// The objects that a set of files defines, and their changes when a file changes. Pure: no fd, clock or
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "k8s/encoding/decode.hpp"
#include "k8s/objects/complaints.hpp"
#include "k8s/objects/source.hpp"

namespace lb::k8s {

/// Identifies one object of any kind.
struct ObjectId {
  Kind kind = Kind::other;
  ObjectKey key;

  /// "Service default/web"
  [[nodiscard]] std::string text() const;
  auto operator<=>(const ObjectId&) const = default;
};

/// One file's definition of one object. Null: the object must be ignored.
struct Definition {
  std::shared_ptr<const Object> object;
  std::size_t line = 0;
};
using Definitions = std::map<ObjectId, Definition>;

/// What one file's text says. It does not depend on earlier texts, so it can be made in another thread.
struct ParsedManifest {
  std::string file;
  Definitions definitions;
  std::vector<ObjectId> refused;  ///< their last good state stays
  bool broken = false;            ///< a document is: all objects that the file had stay
  std::vector<Complaint> complaints;
};

/// Parses a file's text. Names that end in ".json" are JSON, all others YAML. Leaves out the rest of the
/// objects, which take longest, once `stopped`: then the result is of no use.
[[nodiscard]] ParsedManifest parse_manifest(const std::string& file, std::string_view text, Decoder& decoder,
                                            const std::atomic<bool>& stopped);

/// Converts file contents to changes of objects. An object belongs to the first file, by name, that defines
/// it. Invalid parts keep their last valid state: an invalid object its own; a broken document all objects
/// that its file had and no longer defines, because it is unknown which of them it contained. So does an
/// empty file, because a full disk leaves one.
class ManifestSet {
 public:
  using TimePoint = ComplaintBook::TimePoint;

  explicit ManifestSet(Sink& sink);

  /// Sets a file's new text.
  void put(const std::string& file, std::string_view text, TimePoint now);
  void put(ParsedManifest parsed, TimePoint now);
  /// The file exists but cannot be read: its objects stay.
  void unreadable(const std::string& file, std::string reason, TimePoint now);
  /// The file was deleted: its objects are too.
  void erase(const std::string& file, TimePoint now);

  /// Reports changes since the last call to the sink, deletions first, and flushes if there were any.
  void apply(TimePoint now);
  /// Does a part of that: visits `most` objects, each some microseconds. Returns whether more remains.
  [[nodiscard]] bool apply_some(TimePoint now, std::size_t most);

  [[nodiscard]] ComplaintBook& complaints() { return complaints_; }

 private:
  /// A file's former definitions, and where the visit of its present ones goes on.
  struct Replacement {
    std::string file;
    Definitions former;
    Definitions::const_iterator next;
  };

  void replace(const std::string& file, Definitions definitions);
  void note_next_change();
  void decide_next(TimePoint now);
  void report_next();
  void report(const ObjectId& id, const std::shared_ptr<const Object>& object);
  void complain_of_rivals(const ObjectId& id, TimePoint now);
  [[nodiscard]] std::shared_ptr<const Object> winner(const ObjectId& id) const;

  Sink& sink_;
  std::unique_ptr<Decoder> decoder_;
  ComplaintBook complaints_;
  std::map<std::string, Definitions> files_;
  std::map<ObjectId, std::set<std::string>> owners_;
  std::map<ObjectId, std::shared_ptr<const Object>> reported_;
  std::deque<Replacement> replacements_;  ///< files that have changed
  std::set<std::string> pending_;         ///< their names
  std::set<ObjectId> changed_;            ///< objects to decide about
  std::deque<ObjectId> deletions_;        ///< what was decided, to report
  std::deque<std::pair<ObjectId, std::shared_ptr<const Object>>> upserts_;
  bool reported_some_ = false;  ///< since the last flush
};

}  // namespace lb::k8s
