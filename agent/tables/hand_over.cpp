// SPDX-License-Identifier: Apache-2.0
// If a flow passes the stack after our translation, conntrack has an entry for it whose reply tuple equals
// that of the new entry. The old entry is deleted, and its mark and source NAT are copied into the new one.
// Our entries are erased last, so no packet reaches another backend.
//
// From the deletion of the stack's entry until ours are erased, a packet that we have translated, or that the
// backend has sent, would begin a connection of its own in conntrack: its tuple is one of the new entry's, so
// it would get another source port, and the host that receives it would answer with a reset. Such packets
// are dropped instead, and retransmitted.
#include "agent/tables/hand_over.hpp"

#include <cerrno>
#include <optional>
#include <vector>

#include "agent/tables/expiry.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

/// A handshake without packets for longer is abandoned.
constexpr std::uint32_t handshake_seconds = 3;

template <class Key>
TrackedTuple tuple_of(const Key& key) {
  return {.source = k8s::address_of(key.source),
          .destination = k8s::address_of(key.destination),
          .source_port = key.source_port,
          .destination_port = key.destination_port,
          .protocol = key.protocol};
}

template <class Key, class Flow>
std::optional<Tracked> tracked(const Key& key, const Flow& flow) {
  const auto& track = flow.track;
  if (track.direction != LB_FORWARD || (key.protocol != LB_TCP && key.protocol != LB_UDP) ||
      track.forwarded == LB_YES || track.side == LB_UPLINK_EGRESS) {
    return std::nullopt;
  }
  return Tracked{.original = tuple_of(key), .reply = tuple_of(other_key(key, flow))};
}

template <class Key>
RemainReason why_not(const Key& key) {
  return key.protocol == LB_SCTP ? RemainReason::sctp : RemainReason::forwarded;
}

/// A flow on its way to conntrack.
template <class Key, class Flow>
struct Handed {
  Key key;
  Flow flow;
  Tracked tracked;                      ///< conntrack's new entry
  std::optional<Tracked> stacks_entry;  ///< the entry so far, if the flow passes the stack

  /// Merges the stack's entry for the same flow, with its further translation.
  void merge(const Tracked& found) {
    stacks_entry = found;
    tracked.reply = found.reply;
    tracked.mark = found.mark;
  }
};

/// One family's flows, assured and unassured. An assured flow's old entry may remain among the unassured for
/// a while.
template <class Key, class Flow>
class Walk {
 public:
  using Table = maps::HashMap<Key, Flow>;

  Walk(Table& assured, Table& unassured, const HandOverTarget& target, HandOver handing, std::uint32_t now)
      : assured_(assured),
        unassured_(unassured),
        conntrack_(target.conntrack),
        filter_(target.filter),
        handing_(handing),
        now_(now) {}

  // Unassured flows first: a flow moves from there to the assured table, never back.
  [[nodiscard]] maps::error_code all(HandOverCount& count) {
    auto error = each_unassured(count);
    hand_batch(count);
    if (error) {
      return error;
    }
    error = each_assured(count);
    hand_batch(count);
    return error;
  }

 private:
  [[nodiscard]] maps::error_code each_assured(HandOverCount& count) {
    return each(assured_, [&](const Key& key, const Flow& flow) {
      if (!has_ended(key, flow)) {
        record(count, key, flow);
      }
    });
  }

  /// An unassured TCP flow is in its handshake, which is either assured soon or abandoned.
  [[nodiscard]] maps::error_code each_unassured(HandOverCount& count) {
    return each(unassured_, [&](const Key& key, const Flow& flow) {
      const auto lives = key.protocol == LB_UDP ? LB_UNASSURED_SECONDS : handshake_seconds;
      if (age(now_, flow.track.seen) > lives || assured_.get(key)) {
        return;
      }
      if (key.protocol == LB_UDP) {
        record(count, key, flow);
      } else {
        count.leave(RemainReason::handshake, tuple_of(key));
      }
    });
  }

  template <class Visit>
  static maps::error_code each(Table& table, Visit visit) {
    return table.for_each([&](const Key& key, const Flow& flow) {
      if (flow.track.direction == LB_FORWARD) {
        visit(key, flow);
      }
    });
  }

  [[nodiscard]] bool has_ended(const Key& key, const Flow& flow) const {
    if (flow.track.state < LB_CLOSING) {
      return false;
    }
    const auto other = assured_.get(other_key(key, flow));
    return flow.track.state == LB_RESET || !other || other->track.state >= LB_CLOSING;
  }

  void record(HandOverCount& count, const Key& key, const Flow& flow) {
    if (handing_ == HandOver::forbidden) {
      return count.leave(RemainReason::no_successor, tuple_of(key));
    }
    const auto tracked = tracked_of(key, flow);
    if (!tracked) {
      return count.leave(why_not(key), tuple_of(key));
    }
    batch_.push_back({key, flow, *tracked, std::nullopt});
    if (batch_.size() == max_dropped_connections) {
      hand_batch(count);
    }
  }

  void hand_batch(HandOverCount& count) {
    if (batch_.empty()) {
      return;
    }
    std::vector<TrackedTuple> dropped;
    for (auto& each : batch_) {
      add_dropped(dropped, each);
    }
    const DroppedPackets while_handed(filter_, dropped);
    for (const auto& each : batch_) {
      if (const auto error = give(each)) {
        count.refusal = error;
        count.leave(RemainReason::refused, tuple_of(each.key));
      } else {
        ++count.handed;
      }
    }
    batch_.clear();
  }

  /// Adds the tuples of the flow's requests and replies after our translation, and, where the stack sees
  /// replies before it, of replies as the backend sends them.
  void add_dropped(std::vector<TrackedTuple>& dropped, Handed<Key, Flow>& handed) {
    dropped.push_back(reversed(handed.tracked.reply));
    dropped.push_back(reversed(handed.tracked.original));
    if (handed.flow.track.path != LB_PATH_STACK) {
      return;
    }
    if (const auto found = conntrack_.find(reversed(handed.tracked.reply))) {
      handed.merge(*found);
    }
    dropped.push_back(handed.tracked.reply);
  }

  /// After an error the flow stays ours, and the stack goes on translating it.
  [[nodiscard]] boost::system::error_code give(const Handed<Key, Flow>& handed) {
    const auto& stacks_entry = handed.stacks_entry;
    if (stacks_entry) {
      static_cast<void>(conntrack_.erase(stacks_entry->original));
    }
    const auto error = hand_to_conntrack(conntrack_, handed.tracked);
    if (!error) {
      forget(handed.key, handed.flow);
    } else if (stacks_entry) {
      static_cast<void>(hand_to_conntrack(conntrack_, *stacks_entry));
    }
    return error;
  }

  /// Erases the assured entries last: without them a packet would find the unassured ones, and make the flow
  /// assured again. Each entry may have expired meanwhile.
  void forget(const Key& key, const Flow& flow) {
    const auto answers = other_key(key, flow);
    for (auto* table : {&unassured_, &assured_}) {
      static_cast<void>(table->erase(key));
      static_cast<void>(table->erase(answers));
    }
  }

  Table& assured_;
  Table& unassured_;
  ConntrackTable& conntrack_;
  TupleFilter* filter_;
  HandOver handing_;
  std::uint32_t now_;
  std::vector<Handed<Key, Flow>> batch_;
};

}  // namespace

std::string_view reason_text(RemainReason reason) {
  switch (reason) {
    case RemainReason::handshake:
      return "a handshake is under way";
    case RemainReason::sctp:
      return "SCTP: conntrack wants the tags of both sides, and a flow keeps one";
    case RemainReason::forwarded:
      return "the stack forwards it (--forwarding=stack), and a second flow translates it once more";
    case RemainReason::refused:
      return "conntrack refuses its entry";
    case RemainReason::no_successor:
      return "there is no successor";
  }
  return {};
}

void HandOverCount::leave(RemainReason reason, const TrackedTuple& requests) {
  constexpr std::size_t max_examples = 5;
  auto& flows = left.at(static_cast<std::size_t>(reason));
  ++flows.count;
  if (flows.examples.size() < max_examples) {
    flows.examples.push_back(requests);
  }
}

std::size_t HandOverCount::all_left() const {
  std::size_t sum = 0;
  for (const auto& flows : left) {
    sum += flows.count;
  }
  return sum;
}

std::optional<Tracked> tracked_of(const lb_flow4_key& key, const lb_flow4& flow) {
  return tracked(key, flow);
}
std::optional<Tracked> tracked_of(const lb_flow6_key& key, const lb_flow6& flow) {
  return tracked(key, flow);
}

maps::result<HandOverCount> hand_over(const DrainedTables& tables, const HandOverTarget& target,
                                      HandOver handing, std::uint32_t now) {
  HandOverCount count;
  if (auto error = Walk(tables.flows4, tables.unassured4, target, handing, now).all(count)) {
    return error;
  }
  if (auto error = Walk(tables.flows6, tables.unassured6, target, handing, now).all(count)) {
    return error;
  }
  return count;
}

}  // namespace lb::agent
