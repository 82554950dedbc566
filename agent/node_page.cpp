// Writes whole words, and words that stay the same are written as they were, so a reader never sees half of
// one.
#include "agent/node_page.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "agent/error.hpp"

namespace lb::agent {
namespace {

template <std::size_t Size>
void write_text(char (&field)[Size], std::string_view text) {
  std::memset(field, 0, Size);
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

void make_secret(lb_node& node) {
  while (node.secret[0] == 0 && node.secret[1] == 0) {
    if (::getrandom(node.secret, sizeof(node.secret), 0) != static_cast<ssize_t>(sizeof(node.secret))) {
      throw StartError("the kernel gives no random bytes for the secret that keys the choice of backends");
    }
  }
}

}  // namespace

void NodePage::begin(std::string_view node_name, std::uint32_t hertz) {
  auto node = read();
  make_secret(node);
  node.layout = LB_LAYOUT;
  node.hertz = hertz;
  write_text(node.version, SLUICE_VERSION);
  write_text(node.name, node_name);
  array_.store(0, node);
}

void NodePage::set_zone(std::string_view zone) {
  auto node = read();
  write_text(node.zone, zone);
  array_.store(0, node);
}

void NodePage::set_sources(const k8s::Address& ipv4, const k8s::Address& ipv6) {
  auto node = read();
  std::ranges::copy(ipv4.bytes, node.source4);
  std::ranges::copy(ipv6.bytes, node.source6);
  array_.store(0, node);
}

void NodePage::set_status(std::string_view sockets, std::string_view packets, std::string_view missing) {
  auto node = read();
  write_text(node.sockets, sockets);
  write_text(node.packets, packets);
  write_text(node.missing, missing);
  array_.store(0, node);
}

void NodePage::set_started(std::uint64_t seconds) {
  auto node = read();
  node.started = seconds;
  array_.store(0, node);
}

}  // namespace lb::agent
