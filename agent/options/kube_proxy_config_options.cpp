// SPDX-License-Identifier: Apache-2.0
// Handles each section: errors, options, and fields that are ignored or without effect.
#include "agent/options/kube_proxy_config_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string/trim.hpp>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "agent/options/option_text.hpp"
#include "k8s/objects/host_port.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t max_seconds = 1 << 30;  // limit of the agent's options
constexpr std::string_view mode_sections[] = {"iptables", "ipvs", "nftables"};

/// Like kube-proxy's AppendPortIfNeeded: adds the port to an address without one.
std::string with_port(const std::string& address, unsigned port) {
  return k8s::Address::parse(address) ? k8s::host_port(address, port) : address;
}

bool is_ipv4(const k8s::Prefix& range) { return range.address.family() == k8s::Family::ipv4; }

/// Adds the parts of a range outside of 127.0.0.0/8.
void add_without_loopback(const k8s::Prefix& range, std::vector<std::string>& out) {
  static const auto loopback = *k8s::Prefix::parse("127.0.0.0/8");
  if (!range.contains(loopback.address) && !loopback.contains(range.address)) {
    out.push_back(range.text());
  } else if (range.length < loopback.length) {
    auto half = range;
    ++half.length;
    add_without_loopback(half, out);
    const auto bit = static_cast<unsigned>(half.length - 1);
    half.address.bytes.at(bit / 8) |= static_cast<std::uint8_t>(0x80U >> bit % 8);
    add_without_loopback(half, out);
  }
}

std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ",")); }

/// Whether the value is 0, "", false, or an empty list.
bool is_zero(const ConfigValue& value) {
  return std::visit([](const auto& held) { return held == std::decay_t<decltype(held)>{}; }, value);
}

class Mapper {
 public:
  explicit Mapper(const KubeProxyConfig& config) : config_(config), mode_(text("mode")) {
    if (mode_.empty()) {
      mode_ = "iptables";
    }
  }

  std::variant<MappedConfig, std::vector<ConfigProblem>> map() {
    mode();
    feature_gates();
    api();
    logging();
    servers();
    detection();
    node_ports();
    masquerading();
    conntrack();
    ipvs();
    periods();
    process();
    for (const auto& field : kube_proxy_fields()) {
      remark_on(field);
    }
    if (!errors_.empty()) {
      return std::move(errors_);
    }
    return std::move(mapped_);
  }

 private:
  // ---- Values in the file. ----

  template <class Value>
  const Value* find(std::string_view path) const {
    const auto found = config_.fields.find(path);
    return found == config_.fields.end() ? nullptr : std::get_if<Value>(&found->second.value);
  }
  [[nodiscard]] std::string text(std::string_view path) const {
    const auto* value = find<std::string>(path);
    return value != nullptr ? *value : std::string();
  }
  [[nodiscard]] bool boolean(std::string_view path, bool default_value = false) const {
    const auto* value = find<bool>(path);
    return value != nullptr ? *value : default_value;
  }
  /// A whole number or a duration; kube-proxy's default if absent.
  [[nodiscard]] std::int64_t number(std::string_view path) const {
    if (const auto* value = find<std::int64_t>(path)) {
      return *value;
    }
    const auto* field = find_field(path);
    const auto default_value =
        parse_flag_value(field->type, field->default_value.empty() ? "0" : field->default_value);
    return std::get<std::int64_t>(*default_value);
  }
  /// Likewise for fields in which kube-proxy treats 0 as absent.
  [[nodiscard]] std::int64_t number_or_default(std::string_view path) const {
    const auto* value = find<std::int64_t>(path);
    if (value != nullptr && *value != 0) {
      return *value;
    }
    const auto* field = find_field(path);
    return std::get<std::int64_t>(
        *parse_flag_value(field->type, field->default_value.empty() ? "0" : field->default_value));
  }
  [[nodiscard]] std::vector<std::string> texts(std::string_view path) const {
    const auto* value = find<std::vector<std::string>>(path);
    return value != nullptr ? *value : std::vector<std::string>();
  }

  // ---- Results. ----

  [[nodiscard]] ConfigProblem at(std::string_view path, std::string reason) const {
    const auto found = config_.fields.find(path);
    return {found == config_.fields.end() ? 0 : found->second.line, std::string(path), std::move(reason)};
  }
  void refuse(std::string_view path, std::string reason) { errors_.push_back(at(path, std::move(reason))); }
  void refuse_unless(bool good, std::string_view path, std::string_view rule) {
    if (!good) {
      refuse(path, fmt::format("is out of range: {}", rule));
    }
  }
  void remark(FieldRemark::Level level, std::string_view path, std::string reason) {
    mapped_.remarks.push_back({level, at(path, std::move(reason))});
  }
  void set(std::string option, std::string value) {
    mapped_.settings.push_back({std::move(option), std::move(value)});
  }
  void set(std::string option, bool value) { set(std::move(option), std::string(value ? "true" : "false")); }

  // ---- The sections. ----

  void mode() {
    if (std::ranges::find(mode_sections, mode_) == std::end(mode_sections)) {
      refuse("mode", fmt::format("is '{}'; write iptables, ipvs or nftables, or leave it out", mode_));
    }
  }

  /// Where AllowServiceExternalIPs is false, kube-proxy serves no spec.externalIPs. The gate is GA and
  /// unlocked: AllAlpha and AllBeta do not change it.
  void feature_gates() {
    const auto* given = find<std::map<std::string, bool>>("featureGates");
    auto gates = given != nullptr ? *given : std::map<std::string, bool>();
    const auto external_ips = gates.extract("AllowServiceExternalIPs");
    if (!external_ips.empty() && !external_ips.mapped()) {
      set("--external-ips", std::string("none"));
    }
    if (gates.empty()) {
      return;
    }
    remark(FieldRemark::Level::info, "featureGates",
           fmt::format("is without effect for {}: only AllowServiceExternalIPs has one here",
                       fmt::join(std::views::keys(gates), ",")));
  }

  void api() {
    set("--kubeconfig", text("clientConnection.kubeconfig"));
    set("--api-encoding",
        std::string(text("clientConnection.contentType") == "application/json" ? "json" : "protobuf"));
    refuse_unless(number("clientConnection.burst") >= 0, "clientConnection.burst", "at least 0");
    auto name = text("hostnameOverride");
    if (!name.empty() && node_name(name).empty()) {
      refuse("hostnameOverride", "is blank; write the Node's name, or leave it out");
    } else if (!name.empty()) {
      set("--node", std::move(name));
    }
  }

  void logging() {
    const auto format = text("logging.format");
    if (!format.empty() && format != "text" && format != "json") {
      refuse("logging.format", fmt::format("is '{}'; write text or json", format));
    } else {
      set("--log-format", format == "json" ? format : std::string("text"));
    }
    constexpr std::int64_t debugging = 4;  // klog's convention
    set("--log-level", std::string(number("logging.verbosity") >= debugging ? "debug" : "info"));
  }

  void servers() {
    auto own = text("bindAddress");
    const auto address = k8s::Address::parse(own.empty() ? "0.0.0.0" : own);
    if (!address) {
      refuse("bindAddress", fmt::format("is '{}'; write an IP address", own));
    }
    const bool ipv6 = address && address->family() == k8s::Family::ipv6;
    server("healthzBindAddress", "--health", 10256, ipv6 ? "[::]:10256" : "0.0.0.0:10256");
    server("metricsBindAddress", "--metrics", 10249, ipv6 ? "[::1]:10249" : "127.0.0.1:10249");
    set("--bind-address-hard-fail", boolean("bindAddressHardFail"));
  }

  void server(std::string_view path, const char* option, unsigned port, const char* default_value) {
    const auto given = text(path);
    const auto listen = given.empty() ? std::string(default_value) : with_port(given, port);
    const auto parsed = parse_listen(listen);
    if (!parsed || parsed->port == 0) {
      refuse(path, fmt::format("is '{}'; write an IP address with a port, as {}", given, default_value));
    } else {
      set(option, listen);
    }
  }

  void detection() {
    const auto mode = text("detectLocalMode");
    if (mode == "NodeCIDR") {
      set("--detect-local", std::string("node-cidr"));
      set("--cluster-cidr", std::string());
    } else if (mode == "BridgeInterface") {
      detection_by("bridge", "detectLocal.bridgeInterface", "--pod-bridge");
    } else if (mode == "InterfaceNamePrefix") {
      detection_by("prefix", "detectLocal.interfaceNamePrefix", "--pod-devices");
    } else if (mode.empty() || mode == "ClusterCIDR") {
      const bool explicit_or_given = !mode.empty() || !text("clusterCIDR").empty();
      set("--detect-local", std::string(explicit_or_given ? "cluster-cidr" : "auto"));
      cluster_cidrs();
    } else {
      refuse(
          "detectLocalMode",
          fmt::format("is '{}'; write ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix", mode));
    }
  }

  void detection_by(std::string detector, std::string_view path, const char* option) {
    const auto name = text(path);
    if (name.empty() || name.size() > 15 || name.find(',') != std::string::npos) {
      refuse(path, fmt::format("is '{}'; detectLocalMode {} needs the name of a device, or how it begins",
                               name, text("detectLocalMode")));
      return;
    }
    set("--detect-local", std::move(detector));
    set(option, name);
    set("--cluster-cidr", std::string());
  }

  void cluster_cidrs() {
    const auto given = split(text("clusterCIDR"));
    const auto ranges = parse_prefixes(text("clusterCIDR"));
    const bool pair = ranges.size() == 2 && ranges[0].address.family() != ranges[1].address.family();
    if (!given.empty() && ranges.size() != 1 && !pair) {
      refuse("clusterCIDR", fmt::format("is '{}'; write one CIDR, or one of each family with a comma between",
                                        text("clusterCIDR")));
      return;
    }
    set("--cluster-cidr", joined(given));
  }

  void node_ports() {
    const auto given = texts("nodePortAddresses");
    std::set<std::string> keywords;
    for (const auto& each : given) {
      const bool keyword = each == "all" || each == "primary" || each == "localhost";
      if (keyword ? !keywords.insert(each).second : !k8s::Prefix::parse(each)) {
        refuse("nodePortAddresses", fmt::format("has '{}'{}; write CIDRs, primary, localhost or all", each,
                                                keyword ? " twice" : ""));
        return;
      }
    }
    auto list = given;
    if (list.empty()) {
      list = {mode_ == "nftables" ? "primary" : "all"};
    }
    if (keywords.contains("all")) {
      list = {"all"};
    }
    if (mode_ == "iptables" && !boolean("iptables.localhostNodePorts", true)) {
      list = not_on_loopback(list);
    }
    set("--node-port-addresses", joined(list));
  }

  static std::vector<std::string> not_on_loopback(const std::vector<std::string>& list) {
    std::vector<std::string> rest;
    bool limits_ipv4 = false;
    for (const auto& each : list) {
      if (each == "primary") {
        rest.push_back(each);
      } else if (each == "localhost") {
        rest.emplace_back("::1/128");
        limits_ipv4 = true;
      } else {
        const auto range = *k8s::Prefix::parse(each == "all" ? "0.0.0.0/0" : each);
        add_without_loopback(range, rest);
        limits_ipv4 = limits_ipv4 || is_ipv4(range);
      }
    }
    // A list without a range of a family means all addresses of that family.
    const bool has_ipv4 = std::ranges::any_of(
        rest, [](const auto& each) { return each == "primary" || is_ipv4(*k8s::Prefix::parse(each)); });
    if (has_ipv4) {
      return rest;
    }
    if (limits_ipv4) {
      rest.emplace_back("255.255.255.255/32");  // no host has this address
    } else {
      add_without_loopback(*k8s::Prefix::parse("0.0.0.0/0"), rest);
    }
    return rest;
  }

  void masquerading() {
    const std::string section = mode_ == "nftables" ? "nftables" : "iptables";
    set("--masquerade-all", boolean(section + ".masqueradeAll"));
    for (const std::string_view path : {"iptables.masqueradeBit", "nftables.masqueradeBit"}) {
      const bool counts = path.starts_with("iptables") || mode_ == "nftables";
      refuse_unless(!counts || (number(path) >= 0 && number(path) <= 31), path, "0 to 31");
    }
  }

  void conntrack() {
    const auto add_number = [this](std::string_view path, const char* option) {
      refuse_unless(number(path) >= 0, path, "at least 0");
      set(option, std::to_string(std::min(number(path), max_seconds)));
    };
    const auto add_time = [this](std::string_view path, const char* option) {
      refuse_unless(number(path) >= 0, path, "at least 0");
      set(option, fmt::format("{}s", std::min(number(path) / second, max_seconds)));
    };
    add_number("conntrack.maxPerCore", "--conntrack-max-per-core");
    add_number("conntrack.min", "--conntrack-min");
    add_time("conntrack.tcpEstablishedTimeout", "--conntrack-tcp-timeout-established");
    add_time("conntrack.tcpCloseWaitTimeout", "--conntrack-tcp-timeout-close-wait");
    add_time("conntrack.udpTimeout", "--conntrack-udp-timeout");
    add_time("conntrack.udpStreamTimeout", "--conntrack-udp-timeout-stream");
    set("--conntrack-tcp-be-liberal", boolean("conntrack.tcpBeLiberal"));
  }

  void ipvs() {
    if (mode_ != "ipvs") {
      return;
    }
    ipvs_scheduler();
    ipvs_timeout("ipvs.tcpTimeout", {"--tcp-established-timeout"});
    ipvs_timeout("ipvs.tcpFinTimeout", {"--tcp-closing-timeout"});
    ipvs_timeout("ipvs.udpTimeout", {"--udp-timeout", "--udp-stream-timeout"});
    for (const auto& each : texts("ipvs.excludeCIDRs")) {
      if (!k8s::Prefix::parse(each)) {
        refuse("ipvs.excludeCIDRs", fmt::format("has '{}'; write CIDRs", each));
      }
    }
  }

  void ipvs_scheduler() {
    static const std::set<std::string, std::less<>> random = {"", "rr", "wrr"};
    static const std::set<std::string, std::less<>> consistent = {"sh", "mh"};
    const auto scheduler = text("ipvs.scheduler");
    set("--selection", std::string(consistent.contains(scheduler) ? "consistent" : "random"));
    if (!random.contains(scheduler) && !consistent.contains(scheduler)) {
      remark(
          FieldRemark::Level::warning, "ipvs.scheduler",
          fmt::format(
              "is '{}', which is lost: backends are chosen at random by their weights (least connections do "
              "not exist here); write rr or mh to say what is wanted",
              scheduler));
    }
  }

  void ipvs_timeout(std::string_view path, std::initializer_list<const char*> options) {
    const auto timeout = number(path);
    refuse_unless(timeout >= 0, path, "at least 0");
    if (timeout <= 0) {
      return;
    }
    const auto seconds = std::clamp<std::int64_t>(timeout / second, 1, max_seconds);
    for (const auto* option : options) {
      set(option, fmt::format("{}s", seconds));
    }
  }

  void periods() {
    const auto sync = mode_ + ".syncPeriod";
    const auto min_sync = mode_ + ".minSyncPeriod";
    if (find_field(sync) == nullptr) {
      return;
    }
    refuse_unless(number_or_default(sync) > 0, sync, "more than 0");
    refuse_unless(number_or_default(min_sync) >= 0, min_sync, "at least 0");
    refuse_unless(number_or_default(min_sync) <= number_or_default(sync), min_sync, "at most syncPeriod");
    refuse_unless(number_or_default("configSyncPeriod") > 0, "configSyncPeriod", "more than 0");
  }

  void process() {
    const auto adjustment = number("oomScoreAdj");
    refuse_unless(adjustment >= -1000 && adjustment <= 1000, "oomScoreAdj", "-1000 to 1000");
    set("--oom-score-adj", std::to_string(adjustment));
  }

  // ---- Fields without effect that would have one in kube-proxy. ----

  /// Whether the field belongs to a mode that is not selected. IPVS mode uses masquerading of iptables'
  /// section.
  [[nodiscard]] bool is_of_other_mode(std::string_view path) const {
    const auto section = path.substr(0, path.find('.'));
    if (section == mode_ || std::ranges::find(mode_sections, section) == std::end(mode_sections)) {
      return false;
    }
    return !(mode_ == "ipvs" && path.starts_with("iptables.masquerade"));
  }

  void remark_on(const ConfigField& field) {
    const auto given = config_.fields.find(field.path);
    if (given == config_.fields.end() || is_zero(given->second.value) ||
        parse_flag_value(field.type, field.default_value) == given->second.value) {
      return;
    }
    if (is_of_other_mode(field.path)) {
      remark(FieldRemark::Level::info, field.path,
             fmt::format("is of another mode than {} and without effect, as in kube-proxy", mode_));
    } else if (field.use == FieldUse::no_effect) {
      remark(FieldRemark::Level::info, field.path, fmt::format("is without effect: {}", field.note));
    }
  }

  const KubeProxyConfig& config_;
  std::string mode_;
  MappedConfig mapped_;
  std::vector<ConfigProblem> errors_;
};

}  // namespace

std::variant<MappedConfig, std::vector<ConfigProblem>> map_kube_proxy_config(const KubeProxyConfig& config) {
  return Mapper(config).map();
}

}  // namespace lb::agent
