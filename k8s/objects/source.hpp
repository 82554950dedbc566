// The interface by which a source of objects (manifests, API servers) reports to the model. One direction
// only.
#pragma once

#include <string>

#include "k8s/objects/model.hpp"

namespace lb::k8s {

/// Something in an object or a document was refused or skipped ("Our choices" J).
struct Complaint {
  std::string object;  ///< "Service default/web", or "" where no object is known
  std::string where;   ///< "web.yaml:12", or "" for objects from the API
  std::string reason;
  /// Why its owner shall see it at the object, too: an Event's reason, "TooManyFrontends"; empty: no Event.
  std::string event = {};
};

/// Receives every change of every object. Called from the one thread of the agent.
class Sink {
 public:
  virtual ~Sink() = default;
  /// What changes next has come just now, as bytes or as a file, and is not decoded yet.
  virtual void arrived() {}
  virtual void upsert(Service service) = 0;
  virtual void upsert(EndpointSlice slice) = 0;
  virtual void upsert(Node node) = 0;
  virtual void upsert(ServiceCidr cidr) = 0;
  virtual void erase_service(const ObjectKey& key) = 0;
  virtual void erase_slice(const ObjectKey& key) = 0;
  virtual void erase_node(const std::string& name) = 0;
  virtual void erase_service_cidr(const std::string& name) = 0;
  virtual void complain(Complaint complaint) = 0;
  /// From now on these labels are known of every Node but the own one, and no others: a Service that asks for
  /// others waits for them. Not called by a source that reports all labels of all Nodes from the beginning.
  virtual void labels_known(const LabelKeys& /*keys*/) {}
  /// End of a burst: everything that one change of the source brought has been reported.
  virtual void flush() = 0;
  /// The first complete list has been reported; called once.
  virtual void synced() = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  /// Begins to report. Throws StartError if the source cannot be read at all. To be called once.
  virtual void start() = 0;
};

}  // namespace lb::k8s
