// SPDX-License-Identifier: Apache-2.0
// Reading, playing and writing golden scenarios.
#include "scenario.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "agent/plan/cluster.hpp"
#include "k8s/manifests/manifest_set.hpp"
#include "tests/lib/paths.hpp"
#include "tests/lib/plan_lines.hpp"

namespace lb::test {
namespace {

using Lines = std::vector<std::string>;

/// Keeps what the maps would hold.
class Picture final : public agent::PlanSink {
 public:
  void apply(agent::Batch /*batch*/, std::vector<agent::PlanChange> changes) override {
    for (auto& change : changes) {
      changed_.push_back(change.service + (change.ports.empty() ? " gone" : ""));
      services_.insert_or_assign(change.service, std::move(change.ports));
    }
  }

  [[nodiscard]] Lines lines() const {
    Lines all;
    for (const auto& [service, ports] : services_) {
      for (const auto& port : ports) {
        auto lines = test::plan_lines(*port);
        std::move(lines.begin(), lines.end(), std::back_inserter(all));
      }
    }
    return all;
  }

  Lines take_changed() { return std::exchange(changed_, {}); }

 private:
  std::map<std::string, std::vector<std::shared_ptr<const agent::ServicePortPlan>>> services_;
  Lines changed_;
};

std::string joined(const Lines& lines) {
  std::string text;
  for (const auto& line : lines) {
    text += line + '\n';
  }
  return text;
}

/// Files become objects as they do in the agent, objects become plans; steps before a picture are one burst.
class Stage {
 public:
  void act(const Section& section) {
    if (section.word == "node") {
      node_ = section.argument;
    } else if (section.word == "option") {
      set_option(section.argument);
    } else if (section.word == "put") {
      files().put(section.argument, joined(section.body), now_);
    } else if (section.word == "delete") {
      files().erase(section.argument, now_);
    } else {
      throw std::invalid_argument("unknown section: " + section.word);
    }
    settled_ = false;
  }

  Lines show(const std::string& word) {
    settle();
    if (word == "lines") {
      return picture_.lines();
    }
    if (word == "changed") {
      return changed_;
    }
    return complaints_;
  }

 private:
  k8s::ManifestSet& files() {
    if (!files_) {
      cluster_ = std::make_unique<agent::Cluster>(
          node_, options_, picture_, [this](const k8s::Complaint& complaint) {
            told_.push_back(complaint.object + ": " + complaint.reason);
          });
      cluster_->set_api_servers(api_servers_);
      files_ = std::make_unique<k8s::ManifestSet>(*cluster_);
    }
    return *files_;
  }

  void set_option(const std::string& argument) {
    std::istringstream words(argument);
    std::string name;
    std::string value;
    words >> name >> value;
    if (name == "external-ips") {
      if (!options_.external_ip_ranges) {
        options_.external_ip_ranges.emplace();
      }
      if (value != "none") {
        options_.external_ip_ranges->push_back(k8s::Prefix::parse(value).value());
      }
    } else if (name == "exclude") {
      options_.excluded.push_back(k8s::Prefix::parse(value).value());
    } else if (name == "api-server") {
      api_servers_.push_back({k8s::Address::parse(value).value(), 6443});
    } else if (name == "family") {
      options_.families = {value == "ipv6" ? LB_IPV6 : LB_IPV4};
    } else if (name == "topology-labels") {
      options_.topology_labels = k8s::LabelKeys{value};
    } else if (name == "max-service-frontends") {
      options_.max_frontends = std::stoul(value);
    } else {
      throw std::invalid_argument("unknown option: " + name);
    }
  }

  void settle() {
    if (settled_) {
      return;
    }
    settled_ = true;
    now_ += 2 * k8s::ComplaintBook::delay;
    files().apply(now_);
    cluster_->synced();
    files().complaints().report_all(*cluster_);
    changed_ = picture_.take_changed();
    std::sort(told_.begin(), told_.end());
    complaints_ = std::exchange(told_, {});
  }

  std::string node_ = "node-a";
  agent::PlanOptions options_;
  std::vector<agent::ListeningAddress> api_servers_;
  Picture picture_;
  std::unique_ptr<agent::Cluster> cluster_;
  std::unique_ptr<k8s::ManifestSet> files_;
  k8s::ManifestSet::TimePoint now_;
  bool settled_ = false;
  Lines changed_;
  Lines told_;
  Lines complaints_;
};

bool is_heading(const std::string& line) {
  return line.size() > 6 && line.starts_with("-- ") && line.ends_with(" --");
}

Section headed(const std::string& line) {
  const auto heading = line.substr(3, line.size() - 6);
  const auto space = heading.find(' ');
  if (space == std::string::npos) {
    return {heading, "", {}};
  }
  return {heading.substr(0, space), heading.substr(space + 1), {}};
}

}  // namespace

bool Section::shows() const { return word == "lines" || word == "changed" || word == "complaints"; }

std::vector<std::filesystem::path> scenario_paths() {
  const auto folder = std::filesystem::path(source_path("tests/golden/features"));
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Scenario read_scenario(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read " + path.string());
  }
  Scenario scenario;
  for (std::string line; std::getline(file, line);) {
    if (is_heading(line)) {
      scenario.sections.push_back(headed(line));
    } else {
      (scenario.sections.empty() ? scenario.preamble : scenario.sections.back().body).push_back(line);
    }
  }
  return scenario;
}

void write_scenario(const std::filesystem::path& path, const Scenario& scenario) {
  std::ofstream file(path);
  file << joined(scenario.preamble);
  for (const auto& section : scenario.sections) {
    file << "-- " << section.word << (section.argument.empty() ? "" : " ") << section.argument << " --\n";
    file << joined(section.body);
  }
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

Scenario play(const Scenario& scenario) {
  Scenario played = scenario;
  Stage stage;
  for (auto& section : played.sections) {
    if (section.shows()) {
      section.body = stage.show(section.word);
    } else {
      stage.act(section);
    }
  }
  return played;
}

std::string difference(const Lines& expected, const Lines& actual) {
  if (expected == actual) {
    return {};
  }
  const std::multiset<std::string> wanted(expected.begin(), expected.end());
  const std::multiset<std::string> found(actual.begin(), actual.end());
  std::string text;
  for (const auto& line : expected) {
    if (found.count(line) < wanted.count(line)) {
      text += "- " + line + '\n';
    }
  }
  for (const auto& line : actual) {
    if (wanted.count(line) < found.count(line)) {
      text += "+ " + line + '\n';
    }
  }
  return text.empty() ? "the same lines in another order:\n" + joined(actual) : text;
}

}  // namespace lb::test
