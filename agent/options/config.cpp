// SPDX-License-Identifier: Apache-2.0
// The command line: its commands, and how options, configuration file and environment come together.
#include "agent/options/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agent/options/agent_options.hpp"
#include "agent/options/help_text.hpp"
#include "agent/options/kube_proxy_config_file.hpp"
#include "agent/options/kube_proxy_flags.hpp"
#include "agent/options/option_text.hpp"
#include "agent/options/raw_options.hpp"
#include "k8s/client/access.hpp"
#include "k8s/objects/error.hpp"

namespace lb::agent {
namespace {

constexpr const char* default_pins = "/sys/fs/bpf/sluice";
constexpr int usage_error = 2;  // like the shell's; 1 is a command's negative result
constexpr int config_error = 1;

const std::map<std::string, CheckAgainst> check_partners = {{"kube-proxy", CheckAgainst::kube_proxy}};
void add_output(CLI::App& app, RawOptions& raw) {
  app.add_option("-o,--output", raw.output, "table or json")
      ->type_name("FORMAT")
      ->check(one_of(outputs))
      ->capture_default_str();
}

void add_agent(CLI::App& app, RawOptions& raw) {
  add_agent_options(app.add_subcommand("agent", "Run the load balancer of this node"), raw)
      ->footer(agent_footer);
  auto* check = app.add_subcommand("check", "Would an agent with these options start here? Changes nothing");
  add_agent_options(check, raw)->footer(check_footer);
  check
      ->add_option_function<std::string>(
          "--against", [&raw](const std::string& proxy) { raw.check.against = check_partners.at(proxy); },
          "Compare what would be served with what the running kube-proxy serves, instead")
      ->type_name("PROXY")
      ->check(one_of(check_partners));
  add_output(*check, raw);
}

CLI::App* add_show(CLI::App& app, const char* name, const char* what, RawOptions& raw) {
  auto* show = app.add_subcommand(name, what);
  add_pins(*show, raw.show.pins);
  add_output(*show, raw);
  return show;
}

void add_shows(CLI::App& app, RawOptions& raw) {
  add_show(app, "status", "What serves this node, how full its tables are, outcomes of packets", raw)
      ->footer(status_footer);
  auto* services = add_show(app, "services", "Every service port with its frontends and sets", raw);
  services->add_option("service", raw.show.service, "namespace/name[:port], or how it begins (default: all)")
      ->type_name("SERVICE");
  services->footer(services_footer);
  auto* backends = add_show(app, "backends", "The backends of a service", raw);
  backends->add_option("service", raw.show.service, "namespace/name[:port], or how it begins")
      ->type_name("SERVICE")
      ->required();
  backends->add_flag("--all", raw.gone_too,
                     "Show those whose endpoints are gone, too, until no flow can name them");
  backends->footer(backends_footer);
  auto* flows = add_show(app, "flows", "Live flows through this node", raw);
  flows->add_option("--limit", raw.show.limit, "Show at most N, 0 for all")->type_name("N")->default_val(100);
  flows->footer(flows_footer);
}

void add_alive(CLI::App& app, AliveOptions& options) {
  auto* alive =
      app.add_subcommand("alive", "Does an agent run here and do its work? Exit code 0 or 1, for a probe");
  add_pins(*alive, options.pins);
  auto* textfile =
      alive
          ->add_option("--textfile", options.textfile,
                       "Write the answer as metrics to FILE, for node_exporter's textfile collector, instead")
          ->type_name("FILE")
          ->check(CLI::Validator(textfile_problem, "", ""));
  alive
      ->add_option("--interval", options.every,
                   "With --textfile: write each SECONDS until SIGTERM, and then remove FILE (default: once)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1U, 3600U))
      ->needs(textfile);
  alive->footer(alive_footer);
}

void add_cleanup(CLI::App& app, RawOptions& raw) {
  auto* cleanup =
      app.add_subcommand("cleanup", "Remove from this node what Sluice, or kube-proxy, left there");
  add_pins(*cleanup, raw.cleanup.pins);
  auto* kube_proxy = cleanup->add_flag("--kube-proxy", raw.cleanup_kube_proxy,
                                       "Remove kube-proxy's rules instead, and nothing of Sluice's");
  cleanup
      ->add_flag(
          "--force", raw.cleanup_force,
          "With --kube-proxy: also where no Sluice serves, which leaves the node without services, and where "
          "connections would end")
      ->needs(kube_proxy);
  cleanup->add_flag("--dry-run", raw.dry_run, "Print what would be removed, and remove nothing");
  cleanup->add_flag("--wait", raw.stay, "Wait for SIGTERM afterwards, as a DaemonSet's pod has to");
  cleanup->footer(cleanup_footer);
}

void add_drain(CLI::App& app, DrainOptions& options) {
  auto* drain = app.add_subcommand("drain", "Give this node's services back to kube-proxy");
  add_pins(*drain, options.pins);
  drain
      ->add_option("--deadline", options.timeout_seconds,
                   "How long to wait for flows that cannot be handed over")
      ->type_name("SECONDS")
      ->capture_default_str();
  drain->add_flag_callback(
      "--cancel", [&options] { options.mode = DrainMode::cancel; },
      "Take new flows again, and do nothing else");
  drain->add_flag_callback(
      "--force", [&options] { options.successor = Successor::any; },
      "Also where kube-proxy does not serve all that is served here, or is not on this node");
  drain->footer(drain_footer);
}

/// All options with their given or default values.
std::map<std::string, std::string> flags_of(const CLI::App& app) {
  std::map<std::string, std::string> flags;
  for (const auto* option : app.get_options()) {
    const auto given = fmt::format("{}", fmt::join(option->results(), ","));
    flags[option->get_single_name()] = option->count() == 0 ? option->get_default_str() : given;
  }
  flags.erase("help");
  return flags;
}

std::variant<Options, Finished> convert(const CLI::App& app, const RawOptions& raw,
                                        std::string_view host_name) {
  static const std::map<std::string, Command> commands = {
      {"agent", Command::agent},       {"check", Command::check},       {"status", Command::status},
      {"services", Command::services}, {"backends", Command::backends}, {"flows", Command::flows},
      {"cleanup", Command::cleanup},   {"alive", Command::alive},       {"drain", Command::drain}};
  Options options;
  options.command = commands.at(app.get_subcommands().front()->get_name());
  options.show = raw.show;
  options.show.output = outputs.at(raw.output);
  options.show.gone = raw.gone_too ? Gone::show : Gone::hide;
  options.alive = raw.alive;
  options.cleanup = convert_cleanup(raw);
  options.drain = raw.drain;
  options.check = raw.check;
  if (options.command == Command::agent || options.command == Command::check) {
    const auto* chosen = app.get_subcommands().front();
    options.agent = convert_agent(raw, host_name);
    options.agent.flags = flags_of(*chosen);
    if (const auto missing = missing_option(options.agent); !missing.empty()) {
      return Finished{usage_error,
                      fmt::format("sluice: {}; see 'sluice {} --help'\n", missing, chosen->get_name())};
    }
  }
  return options;
}

/// Replaces CLI11's own exit codes (100 and more), which mean nothing to operators.
Finished explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream text;
    app.exit(error, text, text);
    return {0, text.str()};
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    const auto unknown = app.remaining();
    const auto what = unknown.empty()
                          ? "a command is missing"
                          : fmt::format("'{}' is neither a command nor an option", unknown.front());
    return {usage_error, fmt::format("sluice: {}; see 'sluice --help'\n", what)};
  }
  return {usage_error,
          fmt::format("sluice: {}; see 'sluice {} --help'\n", error.what(), chosen.front()->get_name())};
}

/// kube-proxy ignores a flag if a file is given. Options that kube-proxy does not have are ours, and are
/// used. With manifests, a kubeconfig is not used.
bool counts_beside_file(const CLI::App& agent, const std::string& option) {
  return !is_kube_proxy_flag(option) ||
         (option == "--kubeconfig" && agent.get_option("--manifests")->count() > 0);
}

/// `--pod-devices auto`, the default of a process called kube-proxy, names no device: those of the file
/// count.
bool leaves_names_to_file(const CLI::Option& option) {
  return option.get_name() == "--pod-devices" && option.results() == std::vector<std::string>{found_devices};
}

void apply(CLI::App& agent, const OptionSetting& setting, AgentOptions& options) {
  auto* option = agent.get_option(setting.option);
  const bool counts = counts_beside_file(agent, setting.option);
  if (counts && option->count() > 0 && !leaves_names_to_file(*option)) {
    return;
  }
  if (counts && setting.option == "--kubeconfig") {
    return;
  }
  if (!counts && option->count() > 0) {
    options.remarks.push_back({LogLevel::warning, fmt::format("{} is ignored, as by kube-proxy: {} decides",
                                                              setting.option, options.config_file.path)});
  }
  option->clear();
  option->add_result(setting.value);
  option->run_callback();
}

/// To a comparison, 1 means that something differs.
int config_error_code(const RawOptions& raw) {
  return raw.check.against == CheckAgainst::machine ? config_error : usage_error;
}

/// Reads the file of --config unless its text is given. Returns messages about why it cannot be used.
ConfigRefusal take_config_file(CLI::App& agent, RawOptions& raw, std::optional<std::string> text) {
  auto& options = raw.agent;
  const auto& path = options.config_file.path;
  auto loaded = text ? load_config_text(path, std::move(*text)) : load_config_file(path);
  if (auto* refusal = std::get_if<ConfigRefusal>(&loaded)) {
    return std::move(*refusal);
  }
  auto& config = std::get<LoadedConfig>(loaded);
  options.config_file.text = std::move(config.text);
  options.remarks = std::move(config.remarks);
  for (const auto& setting : config.settings) {
    apply(agent, setting, options);
  }
  return {};
}

std::variant<Options, Finished> parse(const std::vector<std::string>& arguments, std::string_view host_name,
                                      std::optional<std::string> config_text) {
  CLI::App app{"Sluice: a Kubernetes service load balancer in eBPF", "sluice"};
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(1);
  app.footer(main_footer);
  RawOptions raw;
  raw.agent.pins = raw.show.pins = raw.alive.pins = raw.cleanup.pins = raw.drain.pins = default_pins;
  add_agent(app, raw);
  add_shows(app, raw);
  add_cleanup(app, raw);
  add_alive(app, raw.alive);
  add_drain(app, raw.drain);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 expects them in
                                                                                // reverse order
    if (auto& file = raw.agent.config_file; !file.path.empty()) {
      const auto refusal = take_config_file(*app.get_subcommands().front(), raw, std::move(config_text));
      if (!refusal.empty()) {
        return Finished{config_error_code(raw),
                        fmt::format("sluice: {}\n", refusal_text(refusal, "\nsluice: "))};
      }
      file.arguments = arguments;
      file.host_name = host_name;
    }
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return convert(app, raw, host_name);
}

}  // namespace

const std::vector<std::string>& optional_features() {
  static const std::vector<std::string> names = {
      "tcx",          "fib-source",     "fib-mark",         "ct-lookup",        "csum-ipv6", "socket-destroy",
      "skb-sums",     "sock-diag",      "storage-iterator", "socket-reconnect", "xdp",       "tc-fastpath",
      "xdp-fastpath", "egress-verdicts"};
  return names;
}

std::variant<Options, Finished> parse_command_line(std::vector<std::string> arguments,
                                                   std::string_view host_name) {
  return parse(arguments, host_name, std::nullopt);
}

std::variant<Options, Finished> parse_with_config(const ConfigFile& file, std::string text) {
  return parse(file.arguments, file.host_name, std::move(text));
}

}  // namespace lb::agent
