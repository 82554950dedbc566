// List and watch of one kind of objects as a state machine: heads and bytes of responses in, requests and
// objects out. No socket, no clock: time is a parameter (REL-30 to 34, 76, 77).
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

/// Older API servers do not have every resource.
enum class Presence : std::uint8_t { required, optional };
enum class FailureReport : std::uint8_t { reported, kept_back };

/// Whole objects, or their metadata alone, as PartialObjectMetadata.
enum class Extent : std::uint8_t { whole, metadata };

/// What to list and watch.
struct Resource {
  Kind kind = Kind::other;
  std::string path;            ///< "/api/v1/services"
  std::string label_selector;  ///< empty: all
  std::string field_selector;  ///< empty: all
  Presence presence = Presence::required;
  Extent extent = Extent::whole;
};

/// What is preferred; the answer's Content-Type says what was sent.
enum class ApiEncoding : std::uint8_t { protobuf, json };

/// How long is waited for what.
struct Timeouts {
  Time head{30'000};    ///< for the head of an answer, connecting included
  Time body{30'000};    ///< for the next byte of a list
  Time watch{120'000};  ///< for the next byte of a watch; most servers send a bookmark each minute
  /// Before the second try, ±25 %. It doubles once, then grows as an eighth of the time for which the failure
  /// has lasted, so that a server that returns is noticed soon; where asking is what hurts (429, lists again)
  /// it doubles each time.
  Time first_pause{500};
  Time unreachable{1'000};  ///< the longest pause while there is no server: back within 2 s (REL-30)
  Time refused{8'000};      ///< the longest pause while it answers with an error
  Time overloaded{30'000};  ///< the longest pause while it answers 429
  Time absent{60'000};      ///< the pause while it does not have an optional resource
  Time fleet_jitter{
      3'000};  ///< over so long lists are spread that one event makes all agents want (not at the start)
  Time stale{15'000};  ///< so long a server may answer from the past before that is the present (REL-76)
  std::uint32_t page = 500;   ///< objects in a piece of a list
  std::uint32_t least = 300;  ///< seconds after which the server ends a watch, at least; at most twice that
};

/// Receives what the reflector finds.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void upsert(Object object) = 0;
  virtual void erase(Kind kind, const ObjectKey& key) = 0;
  virtual void complain(Complaint complaint) = 0;
  /// A request failed, or the server behaves strangely; one sentence. What is known stays as it is.
  /// Where the listener has no room for the sentence now, it is reported again with the next failure.
  virtual FailureReport failure(std::string sentence) = 0;
  /// A whole list has been reported, the deletion of what it did not hold included. Called after every list.
  virtual void listed(Kind kind) = 0;
};

/// One request is under way at a time: begin(), head(), body()..., end(), and again. The order is the
/// caller's to keep; `listener` must outlive this.
class Reflector {
 public:
  Reflector(Resource resource, ApiEncoding encoding, Timeouts timeouts, std::uint32_t seed,
            Listener& listener);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  /// The next request; nothing: not before deadline().
  [[nodiscard]] std::optional<ApiRequest> begin(Time now);
  /// `stop`: the connection is to be closed, then end(End::stopped).
  [[nodiscard]] Flow head(const ApiHead& head, Time now);
  [[nodiscard]] Flow body(std::string_view bytes, Time now);
  /// `detail`, for people: the server, and what failed.
  void end(End how, Time now, std::string detail = {});
  /// When to call end(End::timed_out) or, between requests, begin().
  [[nodiscard]] Time deadline() const { return deadline_; }

  /// Before the first request: it waits for a while that dice choose, because the event that calls for it
  /// calls every agent of the cluster at once.
  void spread(Time now);
  /// Between requests, whichever side closed: everything is listed and reported again, also what has not
  /// changed, after a pause, because lists are dear; and spread.
  void relist(Time now);

  /// Whether a whole list has ever been reported.
  [[nodiscard]] bool synced() const { return synced_; }
  /// What the objects reported so far stand for; 0 before the first list.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t objects() const { return known_.size(); }
  /// Whether what is reported now is part of a list that is not whole.
  [[nodiscard]] bool listing() const { return mode_ == Mode::streaming_list || mode_ == Mode::list; }
  [[nodiscard]] const Resource& resource() const { return resource_; }

  /// Since the start.
  struct Counts {
    std::uint64_t watches = 0;     ///< asked for; all but those that follow a list are restarts
    std::uint64_t quiet = 0;       ///< watches given up for their silence
    std::uint64_t unreadable = 0;  ///< answers, events and objects that could not be decoded
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Whether an end like this is no failure but a watch in which nothing happened. A server need not send
  /// bookmarks, and sends none for what has not changed since it started.
  [[nodiscard]] bool quiet(End how) const;

 private:
  enum class Mode : std::uint8_t {
    streaming_list,  ///< a watch that begins with all objects
    list,            ///< a list in pieces
    probe,           ///< a piece of one object, to learn the server's present version
    watch,
  };
  /// What the answer under way has come to.
  enum class Result : std::uint8_t { open, relist, chunked, whole_list, retry, stale, broken };
  /// Why there is a pause.
  enum class Failure : std::uint8_t { none, unreachable, refused, overloaded, relist, stale };
  struct Known {
    std::uint64_t version = 0;
    std::uint32_t round = 0;  ///< the last list that held it
  };
  class Sink;

  [[nodiscard]] std::string target();
  [[nodiscard]] std::string accept() const;
  void start_list();
  void list_meta(ListMeta meta);
  Flow object(std::string_view bytes);
  Flow event(EventType type, std::string_view bytes);
  Flow upserted(Decoded& decoded);
  Flow deleted(const Decoded& decoded);
  Flow bookmark(std::string_view bytes);
  Flow error_event(std::string_view bytes);
  Flow give_up(Result result, std::string why);
  [[nodiscard]] bool is_stale(const Decoded& decoded) const;
  void note_version(std::uint64_t version);
  void report_problems(const Decoded& decoded);
  void list_complete(std::uint64_t version);
  void page_ended();
  void body_ended(Time now);
  void refused(Time now);
  void failed(End how, Time now);
  void finish_request(Time now);
  void finish_stale(Time now);
  void watch_ended(Time now);
  void watch_was_quiet();
  void succeeded();
  void again(Time now, Failure failure);
  [[nodiscard]] Time longest(Failure failure) const;
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
  bool whole_list_ = false;  ///< without a limit, because a continue token expired
  bool synced_ = false;
  std::uint64_t version_ = 0;
  std::uint64_t seen_ =
      0;  ///< the newest version of anything reported; more than version_ after a part of a list
  bool unfinished_ = false;  ///< a part of a list was reported: only a whole list makes it good
  std::map<ObjectKey, Known> known_;
  std::uint32_t round_ = 0;
  std::string more_;  ///< the continue token of the list under way

  // The answer under way.
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
  unsigned failures_ = 0;        ///< in a row, of the same failure
  unsigned streaming_cuts_ = 0;  ///< streaming lists that broke off, in a row
  std::optional<Time> stale_since_;
  /// A list held objects older than those known, from a server that is not behind: its store was restored and
  /// has gone on since. The next list is believed.
  enum class Restored : std::uint8_t { no, suspected, believed };
  Restored restored_ = Restored::no;
  Time not_before_{0};
  Time deadline_{0};
  std::string detail_;
  std::string last_failure_;
  Counts counts_;
};

}  // namespace lb::k8s
