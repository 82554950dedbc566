// The devices that default routes leave by: what a process called kube-proxy serves where nobody names
// devices.
#pragma once

#include <string>
#include <string_view>

namespace lb::agent {

/// From the texts of /proc/net/route and /proc/net/ipv6_route (proc_pid_net(5)); separated by commas, each
/// once.
[[nodiscard]] std::string default_route_devices(std::string_view ipv4, std::string_view ipv6);

/// Of this network namespace; empty where there are none.
[[nodiscard]] std::string default_route_devices();

}  // namespace lb::agent
