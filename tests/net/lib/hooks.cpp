// Looks at pinned links as any other program could.
#include "tests/net/lib/hooks.hpp"

#include <bpf/bpf.h>

#include <filesystem>
#include <stdexcept>

namespace lb::test {

std::map<std::string, LinkState> links(const Lab& lab) {
  std::map<std::string, LinkState> found;
  for (const auto& entry : std::filesystem::directory_iterator(maps::Pins(lab.pins()).links())) {
    if (entry.is_directory()) {
      continue;  // a note, not a link
    }
    const maps::Fd link(bpf_obj_get(entry.path().c_str()));
    bpf_link_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_link_get_info_by_fd(link.get(), &info, &size) != 0) {
      throw std::runtime_error("cannot read the link " + entry.path().string());
    }
    found[entry.path().filename().string()] = {info.id, info.prog_id};
  }
  return found;
}

std::map<std::string, std::uint32_t> ids(const std::map<std::string, LinkState>& all) {
  std::map<std::string, std::uint32_t> only;
  for (const auto& [name, link] : all) {
    only[name] = link.id;
  }
  return only;
}

agent::AttachReport start(const agent::AgentOptions& options) {
  auto datapath = agent::Datapath::open(options);
  return datapath.attach();
}

DeviceLab::DeviceLab() : options(lab.options()) {
  make_device();
  options.sockets = agent::SocketScope::off;
  options.devices = {"eth0"};
  options.xdp = agent::XdpMode::off;
}

void DeviceLab::make_device() {
  // eth0 takes frames of XDP when its other end polls, and GRO makes it poll.
  shell(
      "ip link add eth0 type veth peer name peer0 && ip link set eth0 up && ip link set peer0 up && "
      "ethtool -K peer0 gro on");
}

}  // namespace lb::test
