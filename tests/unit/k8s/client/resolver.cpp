// SPDX-License-Identifier: Apache-2.0
// The resolver by itself; tests of the client show it with servers.
#include "k8s/client/resolver.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

using namespace lb::k8s;
using namespace std::chrono_literals;

namespace asio = boost::asio;

TEST_CASE("k8s resolver: a callback may ask for the same host again") {
  asio::io_context context;
  const auto guard = asio::make_work_guard(context);
  Resolver resolver(context,
                    [](const std::string&) { return LookupResult{{*Address::parse("192.0.2.1")}, ""}; });
  int results = 0;
  resolver.resolve("a.example", [&](const LookupResult&) {
    ++results;
    resolver.resolve("a.example", [&](const LookupResult& again) {
      ++results;
      CHECK(again.addresses.size() == 1);
    });
  });
  while (results < 2 && context.run_one_for(10s) > 0) {
  }
  CHECK(results == 2);
}
