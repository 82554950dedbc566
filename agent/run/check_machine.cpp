// SPDX-License-Identifier: Apache-2.0
// Checks the start's own list first, then what the agent's other parts need, then the rest; programs last,
// because they take longest.
#include "agent/run/check_machine.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "agent/attach/prerequisites.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/observe/http.hpp"
#include "agent/programs/bpf_programs.hpp"
#include "agent/run/host_facts.hpp"
#include "agent/run/inputs.hpp"
#include "agent/run/unused_proxies.hpp"
#include "agent/run/writable_paths.hpp"

namespace lb::agent {
namespace {

constexpr const char* instructions_limit = "1000000";  // BPF_COMPLEXITY_LIMIT_INSNS

/// Options in a configuration file that are dropped, unknown or without effect.
void check_remarks(const AgentOptions& options, Findings& findings) {
  for (const auto& remark : options.remarks) {
    if (remark.level == LogLevel::info) {
      findings.ok("configuration", remark.text);
    } else {
      findings.warning("configuration", remark.text, "");
    }
  }
}

void check_writable(const AgentOptions& options, Findings& findings) {
  for (const auto& warning : writable_by_all(options)) {
    findings.warning("rights of files", warning, "");
  }
}

void check_agent(const AgentOptions& options, const AgentPresence& running, Findings& findings) {
  if (running.state == AgentState::absent) {
    findings.ok("agent", fmt::format("none runs on {}", options.pins));
  } else {
    findings.warning("agent",
                     fmt::format("one{} runs on {}",
                                 running.pid ? fmt::format(" (pid {})", *running.pid) : "", options.pins),
                     "end it before another one starts: one at a time uses a pin directory");
  }
}

/// The source of services.
void check_source(const AgentOptions& options, Findings& findings) {
  boost::asio::io_context context;
  std::optional<Inputs> inputs;
  if (findings.need("source", [&] { inputs.emplace(context, options); })) {
    findings.ok("source", inputs->text());
  }
  if (const auto warning = unused_proxies(options, own_environment); !warning.empty()) {
    findings.warning("HTTP proxy", warning, "see that this node reaches them without the proxy");
  }
}

/// A port held by another process prevents a start only if the options say so.
void check_port(const std::string& subject, const Listen& listen, BindFailure failure, Findings& findings) {
  const auto text = fmt::format("{} port {}", listen.address, listen.port);
  boost::asio::io_context context;
  const auto open = [&] { static_cast<void>(HttpServer::open_or_throw(context, listen, {})); };
  if (failure == BindFailure::fatal) {
    if (findings.need(subject, open)) {
      findings.ok(subject, text + " is free");
    }
    return;
  }
  try {
    open();
    findings.ok(subject, text + " is free");
  } catch (const StartError& error) {
    findings.warning(subject, error.found(),
                     "end what uses it: until then the agent serves packets, and tries the port each second");
  }
}

/// A running agent on the same pins has these ports, and releases them when it ends.
void check_server(const std::string& subject, const std::optional<Listen>& listen, BindFailure failure,
                  const AgentPresence& running, Findings& findings) {
  if (!listen) {
    findings.ok(subject, "off");
    return;
  }
  if (running.state == AgentState::running) {
    findings.ok(subject,
                fmt::format("{} port {}: not tried beside a running agent", listen->address, listen->port));
    return;
  }
  check_port(subject, *listen, failure, findings);
}

void check_timer(const Prerequisites& found, Findings& findings) {
  if (!found.features) {
    return;
  }
  std::uint32_t hertz = 0;
  if (findings.need("timer", [&] { hertz = measure_hertz(); })) {
    findings.ok("timer", fmt::format("{} ticks a second", hertz));
  }
}

/// A refused program is a warning where the agent starts without it, or without some feature of it.
void check_refusals(const Acceptance& accepted, Findings& findings) {
  constexpr const char* report =
      "report it with the kernel's release; a kernel that accepts it loses nothing";
  constexpr const char* keep =
      "keep a kernel that accepts it: here clients outside would not be served, and /healthz would be 503";
  for (const auto& refusal : accepted.refusals) {
    const bool is_uplinks = refusal.without.empty() && refusal.program.starts_with("lb_tc_");
    findings.warning("program " + refusal.program, refusal_text(refusal), is_uplinks ? keep : report);
    for (const auto& attempt : refusal.attempts) {
      if (!attempt.without.empty()) {
        findings.warning("program " + refusal.program,
                         fmt::format("nor without {}: {}", attempt.without, attempt.reason), "");
      }
    }
  }
}

void check_programs(const AgentOptions& options, const Prerequisites& found, Findings& findings) {
  if (!found.features) {
    return;
  }
  Acceptance accepted;
  if (!findings.need("programs", [&] { accepted = try_programs(options, *found.features); })) {
    return;
  }
  for (const auto& [name, probe] : accepted.loads) {
    const auto instructions = probe.instructions == 0 ? std::string("loads")
                                                      : fmt::format("loads: {} of {} instructions",
                                                                    probe.instructions, instructions_limit);
    const bool useless = accepted.left_out.contains(name);
    findings.ok("program " + name, useless ? instructions + "; useless without those refused" : instructions);
  }
  check_refusals(accepted, findings);
}

}  // namespace

std::vector<Finding> check_machine(const AgentOptions& options) {
  Findings findings(Findings::Missing::is_listed);
  const auto running = find_agent(maps::Pins(options.pins), PidWait::a_heartbeat);
  check_remarks(options, findings);
  check_writable(options, findings);
  const auto found = check_prerequisites(options, findings);
  check_timer(found, findings);
  check_agent(options, running, findings);
  check_source(options, findings);
  check_server("health server", options.health, options.bind_failure, running, findings);
  check_server("metrics server", options.metrics, options.bind_failure, running, findings);
  check_settings(findings);
  check_rights(options, findings);
  check_features(found, findings);
  check_conntrack(options, found, findings);
  check_hook_neighbours(options, findings);
  check_programs(options, found, findings);
  return findings.all();
}

}  // namespace lb::agent
