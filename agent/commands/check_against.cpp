// SPDX-License-Identifier: Apache-2.0
// Plans our side from the source that the options name, because operators run this before Sluice is installed
// on the node. A change reaches the two sides at different times, so only a lasting difference is reported.
#include "agent/commands/check_against.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ranges>

#include "agent/base/error.hpp"
#include "agent/base/escape.hpp"
#include "agent/base/log.hpp"
#include "agent/commands/grid.hpp"
#include "agent/commands/our_frontends.hpp"
#include "agent/run/planned_services.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;

constexpr int same_code = 0;
constexpr int differs_code = 1;
constexpr int incomparable_code = 2;

constexpr std::chrono::seconds timeout{30};  // of the source's first lists
constexpr std::chrono::seconds between_attempts{1};
constexpr int max_attempts = 5;
constexpr std::size_t max_unread = 10;  // rules listed

std::string conclusion(const ComparedServices& compared) {
  const auto sides =
      fmt::format("kube-proxy ({}) and Sluice, from {}", proxy_mode_name(compared.mode), compared.source);
  if (!compared.unread.empty()) {
    return fmt::format(
        "Cannot tell whether they are the same: {} rules of kube-proxy are not understood, which may explain "
        "some of "
        "{} differences in {} frontends, of {}.\n",
        compared.unread.size(), compared.differences.size(), compared.compared, sides);
  }
  return compared.differences.empty()
             ? fmt::format("The same: {} frontends, of {}.\n", compared.compared, sides)
             : fmt::format("Differences: {}, in {} frontends, of {}.\n", compared.differences.size(),
                           compared.compared, sides);
}

/// A line for each of the first rules.
std::string unread_text(const std::vector<std::string>& rules) {
  std::string text;
  for (const auto& rule : rules | std::views::take(max_unread)) {
    text += fmt::format("a rule that is not understood: {}\n", escaped(rule));
  }
  if (rules.size() > max_unread) {
    text += fmt::format("and {} more\n", rules.size() - max_unread);
  }
  return text;
}

std::string comparison_table(const ComparedServices& compared) {
  std::string text;
  if (!compared.differences.empty()) {
    Grid grid({{"SERVICE"}, {"PROTOCOL"}, {"FRONTEND"}, {"DIFFERENCE"}});
    for (const auto& each : compared.differences) {
      grid.add({escaped(each.service), std::string(maps::word(each.frontend.protocol)),
                frontend_text(each.frontend), each.reason});
    }
    text = grid.text() + "\n";
  }
  for (const auto& line : compared.information) {
    text += fmt::format("information: {}\n", escaped(line));
  }
  return text + unread_text(compared.unread) + conclusion(compared);
}

json::object difference_json(const Difference& difference) {
  const auto& frontend = difference.frontend;
  return {{"service", escaped(difference.service)},
          {"protocol", std::string(maps::word(frontend.protocol))},
          {"address", frontend.address.unspecified() ? std::string("*") : frontend.address.text()},
          {"family", frontend.address.family() == k8s::Family::ipv4 ? "IPv4" : "IPv6"},
          {"port", frontend.port},
          {"kind", kind_name(difference.kind)},
          {"reason", difference.reason}};
}

std::string comparison_json(const ComparedServices& compared) {
  json::array differences;
  for (const auto& each : compared.differences) {
    differences.push_back(difference_json(each));
  }
  json::array information;
  for (const auto& each : compared.information) {
    information.emplace_back(each);
  }
  json::array unread;
  for (const auto& each : compared.unread) {
    unread.emplace_back(escaped(each));
  }
  return json::serialize(json::object{{"same", compared.differences.empty() && compared.unread.empty()},
                                      {"mode", proxy_mode_name(compared.mode)},
                                      {"source", compared.source},
                                      {"frontends", compared.compared},
                                      {"differences", std::move(differences)},
                                      {"information", std::move(information)},
                                      {"notUnderstood", std::move(unread)}}) +
         "\n";
}

ServedFrontends ours(const PlannedServices& planned) {
  ServedFrontends frontends;
  for (const auto& [service, ports] : planned.services()) {
    for (const auto& port : ports) {
      add_frontends(frontends, *port);
    }
  }
  return frontends;
}

KubeProxyServices theirs() {
  auto found = read_kube_proxy_services();
  if (!found) {
    throw StartError(
        fmt::format("cannot read kube-proxy's rules: {}{}", found.error().message(),
                    found.error().value() == EPERM ? "; run as root, in the host's network" : ""));
  }
  if (found->mode == ProxyMode::none) {
    throw StartError(
        "no rules of kube-proxy are on this node, in none of its modes: run this in the host's network, "
        "where kube-proxy runs");
  }
  return std::move(*found);
}

std::size_t frontends_of_either(const ServedFrontends& left, const ServedFrontends& right) {
  auto count = left.size();
  for (const auto& [id, frontend] : right) {
    count += left.contains(id) ? 0 : 1;
  }
  return count;
}

ComparedServices compare_once(const PlannedServices& planned) {
  const auto kube_proxy = theirs();
  const auto sluice = ours(planned);
  const auto detail = kube_proxy.mode == ProxyMode::ipvs ? Detail::one_set : Detail::all;
  ComparedServices compared{kube_proxy.mode,
                            planned.source(),
                            frontends_of_either(kube_proxy.frontends, sluice),
                            compare_services(kube_proxy.frontends, sluice, detail),
                            {},
                            kube_proxy.unread};
  if (detail == Detail::one_set) {
    compared.information.emplace_back(
        "IPVS has one set of endpoints for all clients: sets of the node's own clients, what a client gets "
        "where there are no endpoints (reject or drop), and source ranges are not compared");
  }
  compared.information.insert(compared.information.end(), planned.complaints().begin(),
                              planned.complaints().end());
  return compared;
}

ComparedServices compare(const AgentOptions& options) {
  static_cast<void>(theirs());  // fail before waiting for the source
  PlannedServices planned(options);
  planned.await(timeout);
  auto compared = compare_once(planned);
  for (int attempts = 1; attempts < max_attempts && !compared.differences.empty(); ++attempts) {
    planned.follow(between_attempts);
    compared = compare_once(planned);
  }
  return compared;
}

}  // namespace

std::string show_comparison(const ComparedServices& compared, Output output) {
  return output == Output::json ? comparison_json(compared) : comparison_table(compared);
}

int run_check_against(const Options& options) {
  start_log(options.agent.log_level, options.agent.log_format);
  try {
    const auto compared = compare(options.agent);
    fmt::print("{}", show_comparison(compared, options.show.output));
    if (!compared.unread.empty()) {
      return incomparable_code;
    }
    return compared.differences.empty() ? same_code : differs_code;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sluice: cannot compare: {}\n", error.what());
    return incomparable_code;
  }
}

}  // namespace lb::agent
