// List and watch of one kind of objects as a state machine: heads and bytes of answers in, requests and
// objects out. No socket, no clock: time is a parameter (REL-30 to 34, 76, 77).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "k8s/source.hpp"
#include "k8s/transport.hpp"
#include "k8s/transport_body.hpp"

namespace lb::k8s {

/// What to list and watch.
struct Resource {
  Kind kind = Kind::other;
  std::string path;            ///< "/api/v1/services"
  std::string label_selector;  ///< empty: all
  std::string field_selector;  ///< empty: all
};

/// What is preferred; the answer's Content-Type says what was sent.
enum class ApiEncoding : std::uint8_t { protobuf, json };

/// How long is waited for what.
struct Patience {
  Time head{30'000};        ///< for the head of an answer, connecting included
  Time body{30'000};        ///< for the next byte of a list
  Time watch{120'000};      ///< for the next byte of a watch; servers send a bookmark each minute
  Time first_pause{500};    ///< before the second try; each further pause is twice as long, ±25 %
  Time unreachable{1'000};  ///< the longest pause while there is no server: back within 2 s (REL-30)
  Time refused{8'000};      ///< the longest pause while it answers with an error
  Time overloaded{30'000};  ///< the longest pause while it answers 429
  Time past{15'000};        ///< so long a server may answer from the past before that is the present (REL-76)
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
  virtual void trouble(std::string sentence) = 0;
  /// A whole list has been told, the deletion of what it did not hold included. Called after every list.
  virtual void listed(Kind kind) = 0;
};

/// One request is under way at a time: begin(), head(), body()..., end(), and again. The order is the
/// caller's to keep; `listener` must outlive this.
class Reflector {
 public:
  Reflector(Resource resource, ApiEncoding encoding, Patience patience, std::uint32_t seed,
            Listener& listener);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  /// The next request; nothing: not before deadline().
  [[nodiscard]] std::optional<ApiRequest> begin(Time now);
  /// `stop`: the connection is to be closed, then end(End::stopped).
  [[nodiscard]] Flow head(const ApiHead& head, Time now);
  [[nodiscard]] Flow body(std::string_view bytes, Time now);
  void end(End how, Time now);
  /// When to call end(End::silent) or, between requests, begin().
  [[nodiscard]] Time deadline() const { return deadline_; }

  /// Whether a whole list has ever been told.
  [[nodiscard]] bool synced() const { return synced_; }
  /// What the objects told so far stand for; 0 before the first list.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t objects() const { return known_.size(); }

 private:
  enum class Mode : std::uint8_t {
    streaming_list,  ///< a watch that begins with all objects
    list,            ///< a list in pieces
    probe,           ///< a piece of one object, to learn the server's present version
    watch,
  };
  /// What the answer under way has come to.
  enum class Result : std::uint8_t { open, relist, chunked, whole_list, retry, past, broken };
  struct Known {
    std::uint64_t version = 0;
    std::uint32_t round = 0;  ///< the last list that held it
  };
  class Sink;

  [[nodiscard]] std::string target();
  [[nodiscard]] std::string accept() const;
  [[nodiscard]] bool listing() const { return mode_ == Mode::streaming_list || mode_ == Mode::list; }
  void start_list();
  void list_meta(ListMeta meta);
  Flow object(std::string_view bytes);
  Flow event(EventType type, std::string_view bytes);
  Flow upserted(Decoded& decoded);
  Flow deleted(const Decoded& decoded);
  Flow bookmark(std::string_view bytes);
  Flow error_event(std::string_view bytes);
  Flow give_up(Result result, std::string why);
  [[nodiscard]] bool from_the_past(const Decoded& decoded) const;
  void tell_problems(const Decoded& decoded);
  void list_complete(std::uint64_t version);
  void page_ended();
  void body_ended(Time now);
  void refused(Time now);
  void failed(End how, Time now);
  void settle(Time now);
  void settle_past(Time now);
  void watch_ended(Time now);
  void succeeded();
  void again(Time now, Time longest);
  [[nodiscard]] Time jittered(Time pause);
  void say(std::string_view what, Time pause);

  Resource resource_;
  ApiEncoding preferred_;
  Patience patience_;
  std::minstd_rand random_;
  Listener& listener_;
  std::array<std::unique_ptr<Encoding>, 2> encodings_;  ///< by ApiEncoding

  Mode mode_ = Mode::streaming_list;
  bool streaming_refused_ = false;
  bool whole_list_ = false;  ///< without a limit, because a continue token expired
  bool synced_ = false;
  std::uint64_t version_ = 0;
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
  std::uint64_t told_ = 0;         ///< events in it
  Time begun_{0};

  Connection connection_ = Connection::any;
  unsigned failures_ = 0;        ///< in a row
  unsigned streaming_cuts_ = 0;  ///< streaming lists that broke off, in a row
  std::optional<Time> past_since_;
  Time not_before_{0};
  Time deadline_{0};
  std::string last_trouble_;
};

}  // namespace lb::k8s
