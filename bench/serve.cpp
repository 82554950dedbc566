// SPDX-License-Identifier: Apache-2.0
// The servers for bench/connect.cpp: one process answers for all addresses that are routed to it.
//
// usage: bench_serve answer PORT
//          Writes its address into each connection and closes it.
//        bench_serve sink PORT
//          Reads all data of one connection after the other, and answers at the end with the number of
//          bytes.
#include <sys/epoll.h>

#include "bench/ends.hpp"
#include "bench/tool.hpp"

namespace lb::bench {
namespace {

maps::Fd listen_at(std::uint32_t port) {
  auto listener = socket_of(SOCK_STREAM);
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
  if (::getsockname(connection.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return;
  }
  const Answer answer = own.sin_addr.s_addr;
  // The client counts a failure if it is gone.
  (void)::send(connection.get(), &answer, sizeof(answer), MSG_NOSIGNAL);
}

[[noreturn]] void answer(char** words) {
  const auto listener = listen_at(number(words[0]));
  for (;;) {
    const maps::Fd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) {
      answer_one(connection);
    }
  }
}

[[noreturn]] void sink(char** words) {
  const auto listener = listen_at(number(words[0]));
  constexpr std::size_t chunk = std::size_t{1} << 20U;
  for (;;) {
    const maps::Fd connection(must(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
    Total all = 0;
    // The kernel discards the data: the receiver is not what is measured.
    ssize_t got = 0;
    while ((got = ::recv(connection.get(), nullptr, chunk, MSG_TRUNC)) > 0) {
      all += static_cast<Total>(got);
    }
    if (got == 0) {
      (void)::send(connection.get(), &all, sizeof(all), MSG_NOSIGNAL);
    }
  }
}

const Commands commands = {{"answer", {answer, 1}}, {"sink", {sink, 1}}};

}  // namespace
}  // namespace lb::bench

int main(int count, char** words) {
  return lb::bench::run_tool("bench_serve", lb::bench::commands, "usage: bench_serve answer|sink PORT", count,
                             words);
}
