// The servers of bench/connect.cpp: one process answers for all addresses that are routed to it.
//
// usage: bench_serve answer PORT      writes its address into each connection and closes it
//        bench_serve sink PORT        reads whatever comes, one connection after the other
#include <fmt/format.h>
#include <sys/epoll.h>

#include <array>
#include <csignal>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "bench/ends.hpp"

namespace lb::bench {
namespace {

maps::Fd listen_at(std::uint32_t port, int more) {
  auto listener = socket_of(SOCK_STREAM | more);
  const int on = 1;
  must(::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
  const auto end = end_of("0.0.0.0", port);
  must(::bind(listener.get(), plain(end), sizeof(end)), "bind");
  must(::listen(listener.get(), 8192), "listen");
  return listener;
}

/// The server closes first, so that the client's ports are free at once.
void answer_one(const maps::Fd& connection) {
  sockaddr_in own{};
  socklen_t size = sizeof(own);
  if (::getsockname(connection.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return;
  const Answer answer = own.sin_addr.s_addr;
  // A client that has gone is the client's to count.
  (void)::send(connection.get(), &answer, sizeof(answer), MSG_NOSIGNAL);
}

[[noreturn]] void answer(std::uint32_t port) {
  const auto listener = listen_at(port, 0);
  for (;;) {
    const maps::Fd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) answer_one(connection);
  }
}

[[noreturn]] void sink(std::uint32_t port) {
  const auto listener = listen_at(port, 0);
  constexpr std::size_t chunk = std::size_t{1} << 20U;
  for (;;) {
    const maps::Fd connection(must(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
    // Thrown away in the kernel: the receiver is not what is measured.
    while (::recv(connection.get(), nullptr, chunk, MSG_TRUNC) > 0) {
    }
  }
}

int run(int count, char** words) {
  const std::map<std::string, std::function<void(std::uint32_t)>> commands = {{"answer", answer},
                                                                              {"sink", sink}};
  const auto command = count == 3 ? commands.find(words[1]) : commands.end();
  if (command == commands.end()) throw std::runtime_error("usage: bench_serve answer|sink PORT");
  command->second(number(words[2]));
  return 0;
}

}  // namespace
}  // namespace lb::bench

int main(int count, char** words) {
  try {
    return lb::bench::run(count, words);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_serve: {}\n", error.what());
    return 1;
  }
}
