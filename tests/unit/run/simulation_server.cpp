// SPDX-License-Identifier: Apache-2.0
// An API server and its network for the simulation.
#include "simulation_server.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

namespace lb::simulation {
namespace {

using k8s::Kind;

constexpr unsigned services = 6;
constexpr unsigned slices = 10;
constexpr unsigned peers = 3;
constexpr unsigned cidrs = 2;
constexpr std::size_t pasts_kept = 12;

std::string meta(const std::string& name, std::uint64_t version, const std::string& more = "") {
  return fmt::format(R"({{"name":"{}","namespace":"a","resourceVersion":"{}"{}}})", name, version, more);
}

std::string event_text(const char* type, const std::string& object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, object) + "\n";
}

std::string bookmark_text(std::uint64_t version, bool initial_end) {
  return event_text("BOOKMARK",
                    fmt::format(R"({{"metadata":{{"resourceVersion":"{}"{}}}}})", version,
                                initial_end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : ""));
}

std::string status_text(unsigned code, const std::string& reason = "because") {
  return fmt::format(R"({{"kind":"Status","apiVersion":"v1","status":"Failure","code":{},"reason":"{}"}})",
                     code, reason);
}

/// Node labels: some that Services ask for, and another one.
std::string node_labels(Dice& dice) {
  return fmt::format(R"("os":"linux","rack":"r{}","row":"{}")", dice.roll(2), dice.roll(2));
}

/// An address that several services may share: with each other, with endpoints, and one with the node itself.
std::string outside_address(Dice& dice) {
  const auto number = dice.roll(4);
  return number == 0 ? "10.0.0.1" : fmt::format("198.51.100.{}", number);
}

/// An endpoint's address; sometimes that of a service.
std::string endpoint_address(Dice& dice) {
  if (dice.once_in(16)) {
    return outside_address(dice);
  }
  if (dice.once_in(16)) {
    return fmt::format("10.96.0.{}", 1 + dice.roll(services));
  }
  return fmt::format("10.0.1.{}", 1 + dice.roll(40));
}

std::string quoted(const std::string& text) { return fmt::format("\"{}\"", text); }

Kind kind_of(const std::string& path) {
  if (path.find("/services") != std::string::npos) {
    return Kind::service;
  }
  if (path.find("/endpointslices") != std::string::npos) {
    return Kind::slice;
  }
  if (path.find("/nodes") != std::string::npos) {
    return Kind::node;
  }
  return Kind::service_cidr;
}

const char* list_kind(Kind kind) {
  switch (kind) {
    case Kind::service:
      return "ServiceList";
    case Kind::slice:
      return "EndpointSliceList";
    case Kind::node:
      return "NodeList";
    default:
      return "ServiceCIDRList";
  }
}

/// A parsed request.
struct Asked {
  explicit Asked(const std::string& target)
      : kind(kind_of(target.substr(0, target.find('?')))),
        own_node(target.find("fieldSelector=metadata.name%3D") != std::string::npos),
        watch(target.find("watch=true") != std::string::npos),
        initial(target.find("sendInitialEvents=true") != std::string::npos),
        version(number(target, "resourceVersion=").value_or(0)),
        limit(number(target, "limit=")),
        more(text(target, "continue=")) {}

  /// A request for Nodes selects either the agent's own Node or all others.
  [[nodiscard]] bool selects(Kind of, const std::string& name) const {
    return of == kind && (kind != Kind::node || (name == "n") == own_node);
  }

  Kind kind;
  bool own_node;
  bool watch;
  bool initial;
  std::uint64_t version;
  std::optional<std::uint64_t> limit;
  std::string more;

 private:
  static std::string text(const std::string& target, const std::string& name) {
    auto at = target.find("&" + name);
    if (at == std::string::npos) {
      at = target.find("?" + name);
    }
    if (at == std::string::npos) {
      return {};
    }
    at += name.size() + 1;
    return target.substr(at, target.find('&', at) - at);
  }
  static std::optional<std::uint64_t> number(const std::string& target, const std::string& name) {
    const auto found = text(target, name);
    return found.empty() ? std::nullopt : std::optional<std::uint64_t>(std::stoull(found));
  }
};

}  // namespace

/// A request under way: data written but not yet read, and the position of its watch.
class Connection final : public k8s::ApiConnection {
 public:
  explicit Connection(Server& server) : server_(server) { server_.connections_.push_back(this); }
  ~Connection() override { std::erase(server_.connections_, this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void ask(const k8s::ApiRequest& request, k8s::ResponseHandler& reader) override {
    cancel();
    reader_ = &reader;
    asked_.emplace(request.target);
  }
  void cancel() override {
    reader_ = nullptr;
    asked_.reset();
    answered_ = false;
    ends_ = false;
    written_.clear();
  }
  [[nodiscard]] std::string server() const override { return "https://simulated"; }

  [[nodiscard]] bool busy() const { return reader_ != nullptr; }

  void cut() { end(answered_ ? k8s::End::truncated : k8s::End::unreachable); }

  /// Makes the next event on the connection happen.
  void advance() {
    if (!server_.up_ || (server_.faults_ && server_.dice_.once_in(25))) {
      return cut();
    }
    if (!answered_) {
      return answer();
    }
    if (server_.faults_ && server_.dice_.once_in(6)) {
      return;  // no data arrives
    }
    write_events();
    deliver(server_.faults_ ? 1 + server_.dice_.roll(400) : std::numeric_limits<std::size_t>::max());
  }

 private:
  void answer() {
    answered_ = true;
    if (server_.faults_ && server_.dice_.once_in(12)) {
      return refuse();
    }
    const Objects& shown = answer_from();
    unsigned code = 200;
    if (asked_->kind == Kind::service_cidr && !server_.has_cidrs_) {
      code = 404;
    } else if (asked_->watch && !asked_->initial) {
      code = begin_watch();
    } else if (asked_->watch) {
      code = begin_streaming_list(shown);
    } else {
      code = list(shown);
    }
    if (code != 200) {
      written_ = status_text(code);
      ends_ = true;
    }
    head(code);
  }

  void refuse() {
    constexpr std::array<unsigned, 8> codes = {401, 403, 404, 410, 429, 500, 503, 504};
    const auto code = codes.at(server_.dice_.roll(codes.size()));
    written_ = status_text(code);
    ends_ = true;
    head(code);
  }

  void head(unsigned code) {
    if (reader_->head({code, "application/json", std::nullopt}) == k8s::ReadControl::stop) {
      end(k8s::End::stopped);
    }
  }

  /// Another server of the same cluster may have older data.
  const Objects& answer_from() {
    if (!server_.faults_ || server_.past_.empty() || !server_.dice_.once_in(10)) {
      return server_.objects_;
    }
    return server_.past_.at(server_.dice_.roll(static_cast<unsigned>(server_.past_.size())));
  }

  unsigned begin_watch() {
    if (asked_->version > server_.objects_.version) {
      return 504;
    }
    position_ = asked_->version;
    if (position_ >= server_.compacted_) {
      return 200;
    }
    // The API reports this in one of two places.
    if (server_.dice_.once_in(2)) {
      return 410;
    }
    written_ = event_text("ERROR", status_text(410, "Expired"));
    ends_ = true;
    return 200;
  }

  unsigned begin_streaming_list(const Objects& shown) {
    if (server_.faults_ && server_.dice_.once_in(5)) {
      // As a server with an old etcd, or one that does not know the option.
      if (server_.dice_.once_in(2)) {
        return 422;
      }
      written_ = event_text("ERROR", status_text(500, "InternalError"));
      ends_ = true;
      return 200;
    }
    for (const auto& [key, item] : shown.items) {
      if (asked_->selects(key.first, key.second) && item.shown) {
        written_ += event_text("ADDED", item.json);
      }
    }
    written_ += bookmark_text(shown.version, true);
    position_ = shown.version;
    return 200;
  }

  /// A continue token is the version of the list, and the number of objects already returned.
  unsigned list(const Objects& newest) {
    Objects shown = newest;
    std::size_t first = 0;
    if (!asked_->more.empty()) {
      const auto version = std::stoull(asked_->more);
      first = std::stoul(asked_->more.substr(asked_->more.find('-') + 1));
      const auto kept = std::ranges::find(server_.past_, version, &Objects::version);
      if (kept != server_.past_.end()) {
        shown = *kept;
      } else if (version != server_.objects_.version) {
        return 410;
      }
    }
    std::vector<std::string> items;
    for (const auto& [key, item] : shown.items) {
      if (asked_->selects(key.first, key.second) && item.shown) {
        items.push_back(item.json);
      }
    }
    const auto last =
        asked_->limit ? std::min<std::size_t>(items.size(), first + *asked_->limit) : items.size();
    const auto more = last < items.size() ? fmt::format("{}-{}", shown.version, last) : std::string();
    written_ =
        fmt::format(R"({{"kind":"{}","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
                    list_kind(asked_->kind), shown.version, more,
                    fmt::join(items.begin() + static_cast<std::ptrdiff_t>(std::min(first, last)),
                              items.begin() + static_cast<std::ptrdiff_t>(last), ","));
    ends_ = true;
    return 200;
  }

  void write_events() {
    if (ends_ || !asked_->watch) {
      return;
    }
    if (position_ < server_.compacted_) {  // the client was too slow
      written_ += event_text("ERROR", status_text(410, "Expired"));
      ends_ = true;
      return;
    }
    for (const auto& event : server_.history_) {
      if (event.version > position_ && asked_->selects(event.kind, event.name)) {
        written_ += event_text(event.type, event.json);
      }
    }
    position_ = std::max(position_, server_.objects_.version);
    if (server_.dice_.once_in(4)) {
      written_ += bookmark_text(position_, false);
    }
    if (server_.faults_ && server_.dice_.once_in(20)) {
      ends_ = true;
    }
  }

  void deliver(std::size_t max_bytes) {
    const auto piece = written_.substr(0, max_bytes);
    written_.erase(0, piece.size());
    if (!piece.empty() && reader_->body(piece) == k8s::ReadControl::stop) {
      return end(k8s::End::stopped);
    }
    if (ends_ && written_.empty()) {
      end(k8s::End::complete);
    }
  }

  void end(k8s::End how) {
    auto* reader = reader_;
    cancel();
    reader->end(how, server());
  }

  Server& server_;
  k8s::ResponseHandler* reader_ = nullptr;
  std::optional<Asked> asked_;
  bool answered_ = false;
  bool ends_ = false;
  std::string written_;
  std::uint64_t position_ = 0;  ///< the version that the watch has reached
};

std::unique_ptr<k8s::ApiConnection> Server::connection() { return std::make_unique<Connection>(*this); }

void Server::advance_some_connection() {
  if (connections_.empty()) {
    return;
  }
  auto* connection = connections_.at(dice_.roll(static_cast<unsigned>(connections_.size())));
  if (connection->busy()) {
    connection->advance();
  }
}

void Server::deliver_all() {
  for (int turn = 0; turn < 4; ++turn) {
    for (std::size_t at = 0; at < connections_.size(); ++at) {
      if (connections_[at]->busy()) {
        connections_[at]->advance();
      }
    }
  }
}

void Server::compact() {
  compacted_ =
      std::max(compacted_, objects_.version - std::min<std::uint64_t>(objects_.version, dice_.roll(5)));
  std::erase_if(history_, [this](const auto& event) { return event.version <= compacted_; });
}

void Server::restore() {
  if (past_.empty()) {
    return;
  }
  objects_ = past_.at(dice_.roll(static_cast<unsigned>(past_.size())));
  std::erase_if(past_, [this](const auto& past) { return past.version > objects_.version; });
  std::erase_if(history_, [this](const auto& event) { return event.version > objects_.version; });
  compacted_ = objects_.version;
  frozen_ = true;
  for (auto* connection : std::vector(connections_)) {
    if (connection->busy()) {
      connection->cut();
    }
  }
}

void Server::note(Kind kind, const std::string& name, const Objects::Item* before, const Objects::Item* after,
                  const std::string& gone) {
  const bool was = before != nullptr && before->shown;
  const bool is = after != nullptr && after->shown;
  if (is) {
    history_.push_back({objects_.version, kind, name, was ? "MODIFIED" : "ADDED", after->json});
  } else if (was) {
    history_.push_back({objects_.version, kind, name, "DELETED", gone});
  }
}

void Server::put(Kind kind, const std::string& name, bool shown,
                 const std::function<std::string(std::uint64_t)>& json) {
  const auto version = ++objects_.version;
  Objects::Item after{version, json(version), shown};
  const auto found = objects_.items.find({kind, name});
  note(kind, name, found == objects_.items.end() ? nullptr : &found->second, &after, after.json);
  objects_.items[{kind, name}] = std::move(after);
}

void Server::erase(Kind kind, const std::string& name) {
  const auto found = objects_.items.find({kind, name});
  if (found == objects_.items.end()) {
    return;
  }
  ++objects_.version;
  // A deletion has its own version.
  auto gone = found->second.json;
  const auto old = fmt::format("\"resourceVersion\":\"{}\"", found->second.version);
  gone.replace(gone.find(old), old.size(), fmt::format("\"resourceVersion\":\"{}\"", objects_.version));
  note(kind, name, &found->second, nullptr, gone);
  objects_.items.erase(found);
}

void Server::change_something() {
  if (frozen_) {
    return;
  }
  if (dice_.once_in(3)) {
    past_.push_back(objects_);
    if (past_.size() > pasts_kept) {
      past_.erase(past_.begin());
    }
  }
  switch (dice_.roll(8)) {
    case 0:
    case 1:
      return change_service();
    case 2:
      if (has_cidrs_ && dice_.once_in(4)) {
        return change_service_cidr();
      }
      return dice_.once_in(2) ? change_own_node() : change_peer();
    default:
      return change_slice();
  }
}

void Server::change_service() {
  const auto number = dice_.roll(services);
  const auto name = fmt::format("s{}", number);
  if (dice_.once_in(4)) {
    return erase(Kind::service, name);
  }
  const bool node_port = dice_.once_in(2);
  const bool local = dice_.once_in(3);
  const bool sticky = dice_.once_in(4);
  const bool other_proxy = dice_.once_in(8);
  constexpr std::array<const char*, 4> all_keys = {"rack", "row,*", "rack,row", "kubernetes.io/hostname,*"};
  const auto keys = dice_.once_in(2) ? fmt::format(R"(,"annotations":{{"sluice.lb/topology-keys":"{}"}})",
                                                   all_keys.at(dice_.roll(all_keys.size())))
                                     : std::string();
  const auto first_port = dice_.once_in(3) ? 8080U : 80U;  // slices have endpoints at port 8080
  std::vector<std::string> ports;
  for (unsigned port = 0; port <= dice_.roll(2); ++port) {
    ports.push_back(fmt::format(R"({{"name":"p{}","port":{},"protocol":"TCP"{}}})", port, first_port + port,
                                node_port ? fmt::format(",\"nodePort\":{}", 30000 + number * 2 + port) : ""));
  }
  const auto spec = fmt::format(
      R"("spec":{{"type":"{}","clusterIP":"10.96.0.{}","clusterIPs":["10.96.0.{}"],"ipFamilies":["IPv4"],)"
      R"("externalTrafficPolicy":"{}","sessionAffinity":"{}","externalIPs":[{}],"ports":[{}]}},"status":{{"loadBalancer":{{"ingress":[{}]}}}})",
      node_port ? "NodePort" : "ClusterIP", number + 1, number + 1, local ? "Local" : "Cluster",
      sticky ? "ClientIP" : "None", dice_.once_in(3) ? quoted(outside_address(dice_)) : "",
      fmt::join(ports, ","), dice_.once_in(3) ? fmt::format(R"({{"ip":"{}"}})", outside_address(dice_)) : "");
  put(Kind::service, name, !other_proxy, [&](std::uint64_t version) {
    const auto* label = R"(,"labels":{"service.kubernetes.io/service-proxy-name":"x"})";
    return fmt::format(R"({{"kind":"Service","apiVersion":"v1","metadata":{},{}}})",
                       meta(name, version, keys + (other_proxy ? label : "")), spec);
  });
}

void Server::change_slice() {
  const auto name = fmt::format("e{}", dice_.roll(slices));
  if (dice_.once_in(6)) {
    return erase(Kind::slice, name);
  }
  const auto service = fmt::format("s{}", dice_.roll(services));
  const bool headless = dice_.once_in(12);
  std::vector<std::string> endpoints;
  for (auto count = dice_.roll(6); count > 0; --count) {
    const auto condition = dice_.roll(6);
    endpoints.push_back(fmt::format(
        R"({{"addresses":["{}"],"conditions":{{"ready":{},"serving":{},"terminating":{}}},"nodeName":"{}","zone":"z{}","hints":{{"forZones":[{{"name":"z{}"}}]}}}})",
        endpoint_address(dice_), condition > 1, condition > 0, condition < 2,
        dice_.once_in(3) ? "n" : fmt::format("m{}", dice_.roll(peers)), dice_.roll(2), dice_.roll(2)));
  }
  put(Kind::slice, name, !headless, [&](std::uint64_t version) {
    const auto labels = fmt::format(R"(,"labels":{{"kubernetes.io/service-name":"{}"{}}})", service,
                                    headless ? R"(,"service.kubernetes.io/headless":"")" : "");
    return fmt::format(
        R"({{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{},"addressType":"IPv4",)"
        R"("ports":[{{"name":"p0","port":8080,"protocol":"TCP"}},{{"name":"p1","port":8081,"protocol":"TCP"}}],"endpoints":[{}]}})",
        meta(name, version, labels), fmt::join(endpoints, ","));
  });
}

void Server::change_own_node() {
  const auto zone = dice_.roll(3);
  auto labels = node_labels(dice_);
  if (zone != 2) {
    labels += fmt::format(R"(,"topology.kubernetes.io/zone":"z{}")", zone);
  }
  put(Kind::node, "n", true, [&](std::uint64_t version) {
    return fmt::format(
        R"({{"kind":"Node","apiVersion":"v1","metadata":{{"name":"n","resourceVersion":"{}","labels":{{{}}}}},"status":{{"addresses":[{{"type":"InternalIP","address":"10.0.0.1"}}]}}}})",
        version, labels);
  });
}

void Server::change_peer() {
  const auto name = fmt::format("m{}", dice_.roll(peers));
  if (dice_.once_in(4)) {
    return erase(Kind::node, name);
  }
  const auto labels = node_labels(dice_);
  put(Kind::node, name, true, [&](std::uint64_t version) {
    return fmt::format(
        R"({{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{}","resourceVersion":"{}","labels":{{{}}}}}}})",
        name, version, labels);
  });
}

void Server::change_service_cidr() {
  const auto name = fmt::format("c{}", dice_.roll(cidrs));
  if (dice_.once_in(3)) {
    return erase(Kind::service_cidr, name);
  }
  const auto range = fmt::format("10.{}.0.0/16", 96 + dice_.roll(4));
  put(Kind::service_cidr, name, true, [&](std::uint64_t version) {
    return fmt::format(
        R"({{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{{"name":"{}","resourceVersion":"{}"}},"spec":{{"cidrs":["{}"]}}}})",
        name, version, range);
  });
}

}  // namespace lb::simulation
