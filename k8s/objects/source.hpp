// SPDX-License-Identifier: Apache-2.0
// The interface by which a source of objects (manifests, API servers) reports to the model. One direction
// only.
#pragma once

#include <cstdint>
#include <string>

#include "k8s/objects/model.hpp"

namespace lb::k8s {

enum class ComplaintType : std::uint8_t {
  problem,
  recovery,  ///< what an earlier complaint said of the object is over
};

/// A rejected or skipped part of an object or a document (docs/semantics.md, choice J).
struct Complaint {
  std::string object;  ///< "Service default/web", or "" if unknown
  std::string where;   ///< "web.yaml:12", or "" for objects from the API
  std::string reason;
  /// Reason of the Event that reports it to the object's owner, "TooManyFrontends"; empty: no Event.
  std::string event = {};
  std::string uid = {};  ///< of the object, for that Event; empty: unknown
  ComplaintType type = ComplaintType::problem;
};

/// Receives every change of every object. Called from the one thread of the agent.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Data for the following changes has arrived, and is not decoded yet.
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
  /// From now on these labels are known of every Node but the own one, and no others: a Service that needs
  /// others waits for them. Not called by a source that reports all labels of all Nodes from the beginning.
  virtual void labels_known(const LabelKeys& /*keys*/) {}
  /// End of a burst: all changes of one update of the source have been reported.
  virtual void flush() = 0;
  /// The first complete list has been reported; called once.
  virtual void synced() = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  /// Starts reporting. Throws StartError if the source cannot be read at all. Call once.
  virtual void start() = 0;
};

}  // namespace lb::k8s
