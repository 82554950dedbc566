// SPDX-License-Identifier: Apache-2.0
// Flags set fields of the configuration, as in kube-proxy; kube_proxy_config_options does the rest.
#include "agent/options/kube_proxy_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "agent/options/kube_proxy_config_options.hpp"
#include "agent/options/option_text.hpp"
#include "agent/options/raw_options.hpp"
#include "k8s/objects/host_port.hpp"

namespace lb::agent {
namespace {

constexpr int call_error = 1;  // as kube-proxy's

constexpr auto flags = std::to_array<KubeProxyFlag>({
    {"bind-address", "bindAddress", "", ""},
    {"bind-address-hard-fail", "bindAddressHardFail", "", ""},
    {"boot-id-file", "", "", "without effect: nothing asks for the machine's boot"},
    {"cleanup", "", "", "removes what Sluice left on the node, as 'sluice cleanup' does, and ends"},
    {"cluster-cidr", "clusterCIDR", "", ""},
    {"config", "", "", "a KubeProxyConfiguration; flags that it has a field for are ignored beside it"},
    {"config-sync-period", "configSyncPeriod", "", ""},
    {"conntrack-max-per-core", "conntrack.maxPerCore", "", ""},
    {"conntrack-min", "conntrack.min", "", ""},
    {"conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", "", ""},
    {"conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout", "", ""},
    {"conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout", "", ""},
    {"conntrack-udp-timeout", "conntrack.udpTimeout", "", ""},
    {"conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout", "", ""},
    {"detect-local-mode", "detectLocalMode", "", ""},
    {"feature-gates", "featureGates", "", ""},
    {"healthz-bind-address", "healthzBindAddress", "", ""},
    {"healthz-port", "", "", "0 is --health off; else the port where --healthz-bind-address has none"},
    {"help", "", "", "says this, and ends"},
    {"hostname-override", "hostnameOverride", "", ""},
    {"init-only", "", "", "sets the kernel's conntrack, and ends"},
    {"iptables-localhost-nodeports", "iptables.localhostNodePorts", "", ""},
    {"iptables-masquerade-bit", "iptables.masqueradeBit", "", ""},
    {"iptables-min-sync-period", "iptables.minSyncPeriod", "nftables.minSyncPeriod", ""},
    {"iptables-sync-period", "iptables.syncPeriod", "nftables.syncPeriod", ""},
    {"ipvs-exclude-cidrs", "ipvs.excludeCIDRs", "", ""},
    {"ipvs-min-sync-period", "ipvs.minSyncPeriod", "", ""},
    {"ipvs-scheduler", "ipvs.scheduler", "", ""},
    {"ipvs-strict-arp", "ipvs.strictARP", "", ""},
    {"ipvs-sync-period", "ipvs.syncPeriod", "", ""},
    {"ipvs-tcp-timeout", "ipvs.tcpTimeout", "", ""},
    {"ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout", "", ""},
    {"ipvs-udp-timeout", "ipvs.udpTimeout", "", ""},
    {"kube-api-burst", "clientConnection.burst", "", ""},
    {"kube-api-content-type", "clientConnection.contentType", "", ""},
    {"kube-api-qps", "clientConnection.qps", "", ""},
    {"kubeconfig", "clientConnection.kubeconfig", "", ""},
    {"log-flush-frequency", "logging.flushFrequency", "", ""},
    {"log-json-info-buffer-size", "logging.options.json.infoBufferSize", "", ""},
    {"log-json-split-stream", "logging.options.json.splitStream", "", ""},
    {"log-text-info-buffer-size", "logging.options.text.infoBufferSize", "", ""},
    {"log-text-split-stream", "logging.options.text.splitStream", "", ""},
    {"logging-format", "logging.format", "", ""},
    {"masquerade-all", "iptables.masqueradeAll", "nftables.masqueradeAll", ""},
    {"machine-id-file", "", "", "without effect: nothing asks for the machine's id"},
    {"master", "", "", "--api-server"},
    {"metrics-bind-address", "metricsBindAddress", "", ""},
    {"metrics-port", "", "", "0 is --metrics off; else the port where --metrics-bind-address has none"},
    {"nodeport-addresses", "nodePortAddresses", "", ""},
    {"oom-score-adj", "oomScoreAdj", "", ""},
    {"pod-bridge-interface", "detectLocal.bridgeInterface", "", ""},
    {"pod-interface-name-prefix", "detectLocal.interfaceNamePrefix", "", ""},
    {"profiling", "enableProfiling", "", ""},
    {"proxy-mode", "mode", "", ""},
    {"show-hidden-metrics-for-version", "showHiddenMetricsForVersion", "", ""},
    {"v", "logging.verbosity", "", ""},
    {"version", "", "", "says the version, and ends"},
    {"vmodule", "", "", "without effect: there is one level for all of the agent"},
    {"write-config-to", "", "", "refused: kube-proxy's defaults are not the agent's to write"},
});

const KubeProxyFlag* find_flag(std::string_view name) {
  const auto found = std::ranges::find(flags, name, &KubeProxyFlag::name);
  return found == flags.end() ? nullptr : &*found;
}

/// Whether the flag may be given without a value.
bool is_switch(const KubeProxyFlag& flag) {
  const auto* field = find_field(flag.field);
  return field != nullptr ? field->type == FieldType::boolean
                          : flag.name == "cleanup" || flag.name == "init-only" || flag.name == "help" ||
                                flag.name == "version";
}

/// Whether a flag that is repeated adds to its value, as in pflag.
bool is_list(const KubeProxyFlag& flag) {
  const auto* field = find_field(flag.field);
  return field != nullptr && (field->type == FieldType::texts || field->type == FieldType::booleans);
}

struct ParsedCall {
  std::map<std::string, std::string, std::less<>> flags;  ///< last value of each flag; of a list all, joined
  std::vector<std::string> rest;                          ///< arguments that are not kube-proxy's

  [[nodiscard]] const std::string* find(std::string_view name) const {
    const auto found = flags.find(name);
    return found == flags.end() ? nullptr : &found->second;
  }
  /// Whether a switch is on.
  [[nodiscard]] bool is_on(std::string_view name) const {
    const auto* value = find(name);
    return value != nullptr && parse_flag_value(FieldType::boolean, *value) == ConfigValue(true);
  }
  [[nodiscard]] bool rest_has(std::string_view option) const {
    return std::ranges::any_of(rest, [option](const auto& each) {
      return each == option || (each.starts_with(option) && each[option.size()] == '=');
    });
  }
};

Finished mistake(std::string_view what) {
  return {call_error, fmt::format("kube-proxy (sluice): {}; see 'kube-proxy --help'\n", what)};
}

/// pflag's rules: --name=value, --name value, -v=2, -v 2, -v2; a switch takes its value only by '='; '_' is
/// equivalent to '-'.
class CallParser {
 public:
  explicit CallParser(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  std::variant<ParsedCall, Finished> parse() {
    while (at_ < arguments_.size()) {
      if (auto wrong = take(arguments_[at_++])) {
        return std::move(*wrong);
      }
    }
    return std::move(call_);
  }

 private:
  std::optional<Finished> take(const std::string& argument) {
    if (argument.empty()) {
      return std::nullopt;
    }
    auto [name, value] = split_argument(argument);
    const auto* flag = find_flag(name);
    if (flag == nullptr) {
      call_.rest.push_back(argument);
      return std::nullopt;
    }
    if (!value && is_switch(*flag)) {
      value = "true";
    }
    if (!value) {
      if (at_ == arguments_.size()) {
        return mistake(fmt::format("--{} needs a value", name));
      }
      value = arguments_[at_++];
    }
    auto& kept = call_.flags[name];
    kept = is_list(*flag) && !kept.empty() ? fmt::format("{},{}", kept, *value) : std::move(*value);
    return std::nullopt;
  }

  static std::pair<std::string, std::optional<std::string>> split_argument(const std::string& argument) {
    if (!argument.starts_with('-')) {
      return {"", std::nullopt};
    }
    if (!argument.starts_with("--")) {
      return split_short(argument);
    }
    const auto equals = argument.find('=');
    auto name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::ranges::replace(name, '_', '-');
    if (equals == std::string::npos) {
      return {name, std::nullopt};
    }
    return {name, argument.substr(equals + 1)};
  }

  static std::pair<std::string, std::optional<std::string>> split_short(const std::string& argument) {
    const auto name = argument.starts_with("-v") ? "v" : argument == "-h" ? "help" : "";
    if (argument.size() <= 2) {
      return {name, std::nullopt};
    }
    return {name, argument.substr(argument[2] == '=' ? 3 : 2)};
  }

  const std::vector<std::string>& arguments_;
  std::size_t at_ = 0;
  ParsedCall call_;
};

/// As in docs/kube-proxy-config.md.
std::string field_text(const ConfigField& field) {
  if (field.use == FieldUse::no_effect) {
    return fmt::format("without effect: {}", field.note);
  }
  const auto* between = field.option.empty() || field.note.empty() ? "" : ": ";
  return fmt::format("{}{}{}", field.option, between, field.note);
}

std::string help_text() {
  std::string text =
      "Sluice " SLUICE_VERSION
      ", called kube-proxy: it takes kube-proxy's flags, and those of 'sluice agent' that kube-proxy does "
      "not have.\nDevices are found (--devices auto, --pod-devices auto) unless these options, or for pods "
      "detectLocalMode InterfaceNamePrefix, name them.\n\n";
  for (const auto& flag : flags) {
    const auto* field = find_field(flag.field);
    const auto what = field != nullptr ? field_text(*field) : std::string(flag.note);
    text += fmt::format("  --{:<36} {}\n", flag.name, what);
  }
  return text;
}

class Translator {
 public:
  Translator(const ParsedCall& call, std::string_view devices) : call_(call), devices_(devices) {}

  std::variant<TranslatedCall, Finished> translate() {
    if (call_.is_on("help")) {
      return Finished{0, help_text()};
    }
    if (call_.find("version") != nullptr && *call_.find("version") != "false") {
      return Finished{0, "sluice " SLUICE_VERSION " (called kube-proxy)\n"};
    }
    if (const auto* file = call_.find("write-config-to"); file != nullptr && !file->empty()) {
      return mistake("--write-config-to is not supported: take a file that kube-proxy wrote, or none");
    }
    if (call_.is_on("cleanup")) {
      return cleanup();
    }
    add("agent");
    const auto* file = call_.find("config");
    auto wrong = file != nullptr && !file->empty() ? beside_file(*file) : without_file();
    if (wrong) {
      return std::move(*wrong);
    }
    finish();
    return std::move(translated_);
  }

 private:
  void add(std::string argument) { translated_.arguments.push_back(std::move(argument)); }
  void remark(LogLevel level, std::string text) { translated_.remarks.push_back({level, std::move(text)}); }

  TranslatedCall cleanup() {
    add("cleanup");
    translated_.arguments.insert(translated_.arguments.end(), call_.rest.begin(), call_.rest.end());
    return std::move(translated_);
  }

  static bool counts_beside_file(const KubeProxyFlag& flag) {
    return flag.field.empty() || flag.field == "hostnameOverride" || flag.field.starts_with("logging.");
  }

  /// Sets the fields of used flags. nullopt if all are valid.
  std::optional<Finished> read_flags(KubeProxyConfig& config, bool beside) {
    for (const auto& [name, text] : call_.flags) {
      const auto& flag = *find_flag(name);
      const auto* field = find_field(flag.field);
      if (field == nullptr) {
        continue;
      }
      if (beside && !counts_beside_file(flag)) {
        remark(LogLevel::warning, fmt::format("--{} is ignored, as by kube-proxy: --config decides", name));
        continue;
      }
      const auto value = parse_flag_value(field->type, text);
      if (!value) {
        return mistake(fmt::format("--{} is '{}'; write {}", name, text, type_text(field->type)));
      }
      config.fields[std::string(flag.field)] = {*value, 0};
      if (!flag.second_field.empty()) {
        config.fields[std::string(flag.second_field)] = {*value, 0};
      }
    }
    return std::nullopt;
  }

  std::optional<Finished> map(const KubeProxyConfig& config, std::vector<OptionSetting>& settings) {
    auto mapped = map_kube_proxy_config(config);
    if (const auto* problems = std::get_if<std::vector<ConfigProblem>>(&mapped)) {
      return mistake(problem_text("the flags", problems->front()));
    }
    auto& good = std::get<MappedConfig>(mapped);
    for (const auto& each : good.remarks) {
      const bool warning = each.level == FieldRemark::Level::warning;
      remark(warning ? LogLevel::warning : LogLevel::info, problem_text("the flags", each.about));
    }
    settings = std::move(good.settings);
    return std::nullopt;
  }

  /// Uses only given flags: the file determines everything else.
  std::optional<Finished> beside_file(const std::string& file) {
    add("--config=" + file);
    KubeProxyConfig config;
    std::vector<OptionSetting> settings;
    auto wrong = read_flags(config, true);
    if (!wrong) {
      wrong = map(config, settings);
    }
    const auto given = [&](const OptionSetting& setting) {
      return setting.option == "--node" ||
             (setting.option == "--log-level" && config.fields.contains("logging.verbosity")) ||
             (setting.option == "--log-format" && config.fields.contains("logging.format"));
    };
    std::erase_if(settings, [&](const auto& setting) { return !given(setting); });
    add_settings(settings);
    return wrong;
  }

  std::optional<Finished> without_file() {
    KubeProxyConfig config;
    std::vector<OptionSetting> settings;
    auto wrong = read_flags(config, false);
    if (!wrong) {
      wrong = take_port("healthz-port", "healthzBindAddress", "--health", config);
    }
    if (!wrong) {
      wrong = take_port("metrics-port", "metricsBindAddress", "--metrics", config);
    }
    if (!wrong) {
      wrong = map(config, settings);
    }
    add_settings(settings);
    return wrong;
  }

  /// Deprecated flags: 0 is off, and any other value is used if the address has no port.
  std::optional<Finished> take_port(std::string_view flag, const char* field, const char* option,
                                    KubeProxyConfig& config) {
    const auto* text = call_.find(flag);
    if (text == nullptr) {
      return std::nullopt;
    }
    const auto port = parse_flag_value(FieldType::int32, *text);
    if (!port) {
      return mistake(fmt::format("--{} is '{}'; write a port, or 0", flag, *text));
    }
    const auto number = std::get<std::int64_t>(*port);
    if (number == 0) {
      add(fmt::format("{}=off", option));
      off_.emplace_back(option);
      return std::nullopt;
    }
    const auto found = config.fields.find(std::string_view(field));
    if (found == config.fields.end()) {
      return std::nullopt;
    }
    auto& address = std::get<std::string>(found->second.value);
    if (k8s::Address::parse(address)) {
      address = k8s::host_port(address, fmt::format("{}", number));
    }
    return std::nullopt;
  }

  void add_settings(const std::vector<OptionSetting>& settings) {
    for (const auto& [option, value] : settings) {
      const bool taken = call_.rest_has(option) || std::ranges::find(off_, option) != off_.end();
      if (!taken && !value.empty()) {
        add(fmt::format("{}={}", option, value));
      }
    }
  }

  void finish() {
    if (const auto* master = call_.find("master"); master != nullptr && !master->empty()) {
      add("--api-server=" + *master);
    }
    if (call_.find("vmodule") != nullptr) {
      remark(LogLevel::info, "--vmodule is without effect: there is one level for all");
    }
    if (call_.is_on("init-only")) {
      add("--init-only");
    }
    if (!devices_.empty() && !call_.rest_has("--devices")) {
      add(fmt::format("--devices={}", devices_));
    }
    const auto names_pods = [](const auto& argument) { return argument.starts_with("--pod-devices="); };
    if (!call_.rest_has("--pod-devices") && std::ranges::none_of(translated_.arguments, names_pods)) {
      add(fmt::format("--pod-devices={}", found_devices));
    }
    translated_.arguments.insert(translated_.arguments.end(), call_.rest.begin(), call_.rest.end());
  }

  const ParsedCall& call_;
  std::string_view devices_;
  std::vector<std::string> off_;
  TranslatedCall translated_;
};

}  // namespace

std::span<const KubeProxyFlag> kube_proxy_flags() { return flags; }

bool is_kube_proxy_flag(std::string_view option) {
  return option.starts_with("--") && find_flag(option.substr(2)) != nullptr;
}

bool is_kube_proxy_name(std::string_view called) {
  return called.substr(called.find_last_of('/') + 1) == "kube-proxy";
}

std::variant<TranslatedCall, Finished> translate_kube_proxy_call(const std::vector<std::string>& arguments,
                                                                 std::string_view devices) {
  const auto parsed = CallParser(arguments).parse();
  if (const auto* finished = std::get_if<Finished>(&parsed)) {
    return *finished;
  }
  return Translator(std::get<ParsedCall>(parsed), devices).translate();
}

std::variant<Options, Finished> parse_kube_proxy_command_line(const std::vector<std::string>& arguments,
                                                              std::string_view host_name,
                                                              std::string_view devices) {
  auto translated = translate_kube_proxy_call(arguments, devices);
  if (auto* finished = std::get_if<Finished>(&translated)) {
    return std::move(*finished);
  }
  auto& call = std::get<TranslatedCall>(translated);
  auto parsed = parse_command_line(std::move(call.arguments), host_name);
  if (auto* options = std::get_if<Options>(&parsed)) {
    auto& remarks = options->agent.remarks;
    remarks.insert(remarks.begin(), call.remarks.begin(), call.remarks.end());
  } else if (auto& finished = std::get<Finished>(parsed); finished.exit_code != 0) {
    finished.exit_code = call_error;
  }
  return parsed;
}

}  // namespace lb::agent
