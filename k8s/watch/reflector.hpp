// SPDX-License-Identifier: Apache-2.0
// List and watch of one resource as a state machine: takes response heads and bytes, gives requests and
// objects. No socket, no clock: time is a parameter (REL-30 to 34, 76, 77).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "k8s/client/transport.hpp"
#include "k8s/objects/source.hpp"
#include "k8s/watch/transport_body.hpp"

namespace lb::k8s {

/// Whether every API server has the resource; older ones do not have every one.
enum class Presence : std::uint8_t { required, optional };
enum class FailureReport : std::uint8_t { reported, kept_back };

/// Whole objects, or only their metadata, as PartialObjectMetadata.
enum class ObjectForm : std::uint8_t { whole, metadata };

/// The objects to list and watch.
struct Resource {
  Kind kind = Kind::other;
  std::string path;            ///< "/api/v1/services"
  std::string label_selector;  ///< empty: no selector
  std::string field_selector;  ///< empty: no selector
  Presence presence = Presence::required;
  ObjectForm form = ObjectForm::whole;
};

/// The preferred encoding; the response's Content-Type has the actual one.
enum class ApiEncoding : std::uint8_t { protobuf, json };

/// Timeouts, backoff and page sizes.
struct Timeouts {
  Time head{30'000};    ///< for the head of a response, connecting included
  Time body{30'000};    ///< for the next byte of a list
  Time watch{120'000};  ///< for the next byte of a watch; most servers send a bookmark each minute
  /// For a streaming list as a whole, whatever arrives meanwhile, and how long a server that does not
  /// complete one is listed in pages instead (kubernetes#140890: it never sends the bookmark that marks the
  /// end).
  Time streaming{60'000};
  Time pages{600'000};
  /// Backoff before the second attempt, ±25 %. It doubles once, then grows to an eighth of the time for which
  /// the failure has lasted, so that a returning server is noticed soon; where requests themselves are the
  /// load (429, repeated lists) it doubles each time.
  Time first_pause{500};
  Time unreachable{1'000};   ///< maximum backoff while no server is reachable; back within 2 s (REL-30)
  Time refused{8'000};       ///< maximum backoff while the server responds with an error
  Time overloaded{30'000};   ///< maximum backoff while the server responds with 429
  Time absent{60'000};       ///< pause while the server lacks an optional resource
  Time fleet_jitter{3'000};  ///< jitter of lists that one event makes all agents send (not at the start)
  Time stale{15'000};  ///< for this long a server may send stale data before that counts as current (REL-76)
  Time labels{600'000};  ///< other Nodes' labels are watched this long after the last Service asked for them
  std::uint32_t page = 500;               ///< page size: objects in a page of a list
  std::uint32_t min_watch_seconds = 300;  ///< until the server ends a watch; maximum: twice that
};

/// Receives the reflector's objects and failures.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void upsert(Object object) = 0;
  virtual void erase(Kind kind, const ObjectKey& key) = 0;
  virtual void complain(Complaint complaint) = 0;
  /// A request failed, or the server behaves unexpectedly; `message` is the log message. Known objects stay.
  /// If the listener suppresses the message (rate limit), it is reported again with the next failure.
  virtual FailureReport failure(std::string message) = 0;
  /// A whole list has been reported, including the deletion of objects missing in it. Called after every
  /// list.
  virtual void listed(Kind kind) = 0;
};

/// One request is under way at a time: call begin(), head(), body()…, end(), and again, in this order.
/// `listener` must outlive this.
class Reflector {
 public:
  Reflector(Resource resource, ApiEncoding encoding, Timeouts timeouts, std::uint32_t seed,
            Listener& listener);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  /// The next request; nullopt before deadline().
  [[nodiscard]] std::optional<ApiRequest> begin(Time now);
  /// ReadControl::stop: close the connection, then call end(End::stopped).
  [[nodiscard]] ReadControl head(const ApiHead& head, Time now);
  [[nodiscard]] ReadControl body(std::string_view bytes, Time now);
  /// `detail` is for messages: the server, and what failed.
  void end(End how, Time now, std::string detail = {});
  /// When to call end(End::timed_out) or, between requests, begin().
  [[nodiscard]] Time deadline() const { return deadline_; }

  /// Delays the first request by a random time, because the event that triggers it triggers it in every agent
  /// of the cluster at once.
  void spread(Time now);
  /// Call between requests, whether the server or we closed. Lists and reports everything again, including
  /// unchanged objects, after backoff and jitter, because lists are expensive.
  void relist(Time now);

  /// Whether a whole list has ever been reported.
  [[nodiscard]] bool synced() const { return synced_; }
  /// The resourceVersion of the objects reported so far; 0 before the first list.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t objects() const { return known_.size(); }
  /// Whether objects reported now are part of an incomplete list.
  [[nodiscard]] bool listing() const { return mode_ == Mode::streaming_list || mode_ == Mode::list; }
  [[nodiscard]] const Resource& resource() const { return resource_; }

  /// Counters since the agent started.
  struct Counts {
    std::uint64_t watches = 0;     ///< watches requested; all but those that follow a list are restarts
    std::uint64_t quiet = 0;       ///< watches closed because they were silent
    std::uint64_t unreadable = 0;  ///< responses, events and objects that could not be decoded
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Whether this end is not a failure but a watch without events. A server need not send bookmarks, and
  /// sends none for resources unchanged since it started.
  [[nodiscard]] bool quiet(End how) const;

 private:
  enum class Mode : std::uint8_t {
    streaming_list,  ///< a watch that begins with all objects
    list,            ///< a list in pages
    probe,           ///< a page of one object, to learn the server's current resourceVersion
    watch,
  };
  /// The result of the response under way.
  enum class Result : std::uint8_t { open, relist, chunked, whole_list, retry, stale, broken };
  /// The reason for the backoff.
  enum class Failure : std::uint8_t { none, unreachable, refused, overloaded, relist, stale };
  struct Known {
    std::uint64_t version = 0;
    std::uint32_t round = 0;  ///< number of the last list that contained it
  };
  class Sink;

  [[nodiscard]] std::string target();
  [[nodiscard]] std::string accept() const;
  void start_list(Time now);
  [[nodiscard]] Time next_byte_by(Time now) const;
  void list_meta(ListMeta meta);
  ReadControl object(std::string_view bytes);
  ReadControl event(EventType type, std::string_view bytes);
  ReadControl upserted(Decoded& decoded);
  ReadControl deleted(const Decoded& decoded);
  ReadControl bookmark(std::string_view bytes);
  ReadControl error_event(std::string_view bytes);
  ReadControl give_up(Result result, std::string why);
  [[nodiscard]] bool is_stale(const Decoded& decoded) const;
  void note_version(std::uint64_t version);
  void report_problems(const Decoded& decoded);
  void list_complete(std::uint64_t version);
  void page_ended();
  void body_ended(Time now);
  void refused(Time now);
  void failed(End how, Time now);
  void streaming_list_failed(End how, Time now);
  void finish_request(Time now);
  void finish_stale(Time now);
  void watch_ended(Time now);
  void watch_was_quiet();
  void succeeded();
  void again(Time now, Failure failure);
  [[nodiscard]] Time max_pause(Failure failure) const;
  [[nodiscard]] Time jittered(Time pause);
  [[nodiscard]] Time fleet_jitter();
  void pause(Time now, Time length);
  void say(std::string_view what, Time pause);

  Resource resource_;
  ApiEncoding preferred_;
  Timeouts timeouts_;
  std::minstd_rand random_;
  Listener& listener_;
  std::array<std::unique_ptr<Encoding>, 2> encodings_;  ///< by ApiEncoding

  Mode mode_ = Mode::streaming_list;
  bool streaming_refused_ = false;
  Time pages_until_{0};      ///< no streaming lists before
  bool whole_list_ = false;  ///< list without a limit, because a continue token expired
  bool synced_ = false;
  std::uint64_t version_ = 0;
  std::uint64_t seen_ = 0;   ///< newest version of any reported object; above version_ during a list
  bool unfinished_ = false;  ///< a part of a list was reported; only a whole list completes it
  std::map<ObjectKey, Known> known_;
  std::uint32_t round_ = 0;
  std::string more_;  ///< the continue token of the list under way

  // The response under way.
  Encoding* encoding_ = nullptr;
  std::unique_ptr<BodyReader> reader_;
  ApiHead head_;
  ListMeta meta_;
  std::string error_body_;
  Result result_ = Result::open;
  std::string why_;
  std::uint32_t retry_after_ = 0;  ///< seconds
  std::uint64_t events_ = 0;       ///< events in it
  Time begun_{0};

  Connection connection_ = Connection::any;
  Failure failure_ = Failure::none;
  Time failure_since_{0};
  unsigned failures_ = 0;        ///< the same failure in a row
  unsigned streaming_cuts_ = 0;  ///< streaming lists in a row that broke off
  std::optional<Time> stale_since_;
  /// A list contained objects older than known ones, from a server that does not lag: its etcd was restored
  /// and has continued since. The next list is accepted.
  enum class Restored : std::uint8_t { no, suspected, believed };
  Restored restored_ = Restored::no;
  Time not_before_{0};
  Time deadline_{0};
  std::string detail_;
  std::string last_failure_;
  Counts counts_;
};

}  // namespace lb::k8s
