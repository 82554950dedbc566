// The objects that a set of files defines, and their changes when a file changes. Pure: no fd, clock or
// thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
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

/// Converts file contents to changes of objects. An object belongs to the first file, by name, that defines
/// it. Invalid parts keep their last valid state: an invalid object its own; a broken document all objects
/// that its file had and no longer defines, because it is unknown which of them it contained. So does an
/// empty file, because a full disk leaves one.
class ManifestSet {
 public:
  using TimePoint = ComplaintBook::TimePoint;

  explicit ManifestSet(Sink& sink);

  /// Sets a file's new text. Names that end in ".json" are JSON, all others YAML.
  void put(const std::string& file, std::string_view text, TimePoint now);
  /// The file exists but cannot be read: its objects stay.
  void unreadable(const std::string& file, std::string reason, TimePoint now);
  /// The file was deleted: its objects are too.
  void erase(const std::string& file, TimePoint now);

  /// Reports changes since the last call to the sink, deletions first, and flushes if there were any.
  void apply(TimePoint now);

  [[nodiscard]] ComplaintBook& complaints() { return complaints_; }

 private:
  /// One file's definition of one object. Null: the object must be ignored.
  struct Definition {
    std::shared_ptr<const Object> object;
    std::size_t line = 0;
  };
  using Definitions = std::map<ObjectId, Definition>;
  class Reader;

  void replace(const std::string& file, Definitions definitions);
  void report(const ObjectId& id, const std::shared_ptr<const Object>& object);
  void complain_of_rivals(const ObjectId& id, TimePoint now);
  [[nodiscard]] std::shared_ptr<const Object> winner(const ObjectId& id) const;

  Sink& sink_;
  std::unique_ptr<Decoder> decoder_;
  ComplaintBook complaints_;
  std::map<std::string, Definitions> files_;
  std::map<ObjectId, std::set<std::string>> owners_;
  std::map<ObjectId, std::shared_ptr<const Object>> reported_;
  std::set<ObjectId> changed_;
};

}  // namespace lb::k8s
