// SPDX-License-Identifier: Apache-2.0
// All Services, each with the stage of its work, in queues by stage. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include "agent/plan/service_model.hpp"
#include "agent/plan/stage.hpp"

namespace lb::agent {

/// A Service, and what is to be done for it. Its address stays while it is in the table.
struct ServiceRecord {
  ServiceRecord(const std::string& service, AddressBlocks& blocks) : name(service), model(service, blocks) {}
  std::string name;  ///< "namespace/name"
  ServiceModel model;

 private:
  friend class ServiceRecords;
  bool lacks_labels_ = false;
  Stage stage_ = Stage::idle;
  std::uint64_t read_position_ = 0;  ///< in the queue of those to be read, kept until it was read; 0: none
  std::uint64_t plan_position_ = 0;  ///< in the queues of those to be planned, kept until it was planned
};

/// The queues are in the order in which Services were first in need, and one that changes again keeps its
/// position: a Service that changes all the time gets its turn, and delays no other.
class ServiceRecords {
 public:
  /// `impossible` is called with a Service and an event that does not fit its stage, which is an error of
  /// this program: the Service is read and planned anew.
  explicit ServiceRecords(std::function<void(const ServiceRecord&, StageEvent)> impossible)
      : impossible_(std::move(impossible)) {}

  /// null: there is none.
  [[nodiscard]] ServiceRecord* find(const std::string& service);
  [[nodiscard]] const ServiceRecord* find(const std::string& service) const;
  [[nodiscard]] ServiceRecord& find_or_add(const std::string& service, AddressBlocks& blocks);
  /// The first one after that name; null: none.
  [[nodiscard]] const ServiceRecord* after(const std::string& service) const;
  /// In the order of their names.
  [[nodiscard]] auto records() { return std::views::values(records_); }
  [[nodiscard]] auto records() const { return std::views::values(records_); }

  [[nodiscard]] static Stage stage_of(const ServiceRecord& record) noexcept { return record.stage_; }
  /// Moves the Service to its next stage.
  void happened(ServiceRecord& record, StageEvent event);

  /// The first in a queue; null: the queue is empty.
  [[nodiscard]] ServiceRecord* first(StageQueue queue) const;
  [[nodiscard]] bool has(StageQueue queue) const { return first(queue) != nullptr; }
  /// Removes a Service that is idle and has neither an object nor slices nor a plan.
  void remove_if_empty(const std::string& service);

  /// Positions are numbered. Whether all that were to be read before this position have been.
  [[nodiscard]] bool are_read_before(std::uint64_t position) const {
    const auto& to_read = queues_.at(static_cast<std::size_t>(StageQueue::to_read));
    return to_read.empty() || to_read.begin()->first >= position;
  }
  [[nodiscard]] std::uint64_t next_position() const noexcept { return next_; }
  /// A pass ends when all that were to be read at its beginning have been.
  void begin_pass() noexcept { pass_ = next_; }
  [[nodiscard]] bool has_pass_ended() const { return are_read_before(pass_); }

  /// Whether a Service is not planned because labels that it needs are unknown.
  [[nodiscard]] static bool lacks_labels(const ServiceRecord& record) noexcept {
    return record.lacks_labels_;
  }
  void set_lacks_labels(ServiceRecord& record, bool lacks) noexcept;
  [[nodiscard]] std::size_t lacking_labels() const noexcept { return lacking_labels_; }

  /// How often a transition has happened.
  [[nodiscard]] std::uint64_t times(Stage from, StageEvent event) const {
    return times_.at(static_cast<std::size_t>(from)).at(static_cast<std::size_t>(event));
  }

 private:
  using Queue = std::map<std::uint64_t, ServiceRecord*>;
  /// The queue and the position of a record in its present stage.
  [[nodiscard]] std::pair<Queue*, std::uint64_t> place(const ServiceRecord& record);
  void renew_positions(ServiceRecord& record, StageEvent event, Stage to);

  std::function<void(const ServiceRecord&, StageEvent)> impossible_;
  std::map<std::string, ServiceRecord> records_;
  std::array<Queue, stage_queues> queues_;  ///< by StageQueue; that of `none` stays empty
  std::uint64_t next_ = 1;
  std::uint64_t pass_ = 1;  ///< the next position at the beginning of the pass
  std::size_t lacking_labels_ = 0;
  std::array<std::array<std::uint64_t, stage_events>, stages> times_{};
};

}  // namespace lb::agent
