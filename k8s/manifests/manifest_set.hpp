// The objects that a set of files defines, and the changes when a file changes. Pure: no fd, clock or thread.
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

/// Names one object of any kind.
struct ObjectId {
  Kind kind = Kind::other;
  ObjectKey key;

  /// "Service default/web"
  [[nodiscard]] std::string text() const;
  auto operator<=>(const ObjectId&) const = default;
};

/// Files in, changes of objects out. An object belongs to the first file, in the order of their names, that
/// defines it. What cannot be read keeps its last valid state: an invalid object its own; a broken document
/// all objects that its file had and no longer defines, because it is not known which of them the broken part
/// meant. An empty file does, too, because a full disk leaves one.
class ManifestSet {
 public:
  using Moment = ComplaintBook::Moment;

  explicit ManifestSet(Sink& sink);

  /// The file's text is now this. Names that end in ".json" are JSON, all others YAML.
  void put(const std::string& file, std::string_view text, Moment now);
  /// The file exists and cannot be read: its objects stay.
  void unreadable(const std::string& file, std::string reason, Moment now);
  /// The file is gone, and its objects with it.
  void erase(const std::string& file, Moment now);

  /// Reports to the sink what has changed since the last call, deletions first, and flushes if anything
  /// has.
  void apply(Moment now);

  [[nodiscard]] ComplaintBook& complaints() { return complaints_; }

 private:
  /// One file's definition of one object. No object: it is to be ignored.
  struct Definition {
    std::shared_ptr<const Object> object;
    std::size_t line = 0;
  };
  using Definitions = std::map<ObjectId, Definition>;
  class Reader;

  void replace(const std::string& file, Definitions definitions);
  void report(const ObjectId& id, const std::shared_ptr<const Object>& object);
  void complain_of_rivals(const ObjectId& id, Moment now);
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
