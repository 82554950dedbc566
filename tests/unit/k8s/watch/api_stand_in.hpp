// SPDX-License-Identifier: Apache-2.0
// An API server played by the test, with a clock that the test advances.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "k8s/client/http_client.hpp"
#include "k8s/watch/api_runtime.hpp"

namespace lb::k8s::testing {

struct ApiStandIn {
  struct Line final : ApiConnection {
    explicit Line(ApiStandIn& with) : api(with) {}
    void ask(const ApiRequest& request, ResponseHandler& asking) override {
      REQUIRE(api.reader == nullptr);
      api.requests.push_back(request);
      api.reader = &asking;
    }
    void cancel() override { api.reader = nullptr; }
    [[nodiscard]] std::string server() const override { return "https://server"; }
    ApiStandIn& api;
  };
  struct Bell final : Alarm {
    explicit Bell(ApiStandIn& with) : api(with) {}
    void set(Time when, std::function<void()> action) override {
      api.rings_at = when;
      api.ring = std::move(action);
    }
    ApiStandIn& api;
  };

  /// A runtime that is valid as long as this object lives.
  ApiRuntime runtime() {
    return {[this] { return std::make_unique<Line>(*this); },
            [this] { return std::make_unique<Bell>(*this); }, [this] { return now; }};
  }
  void answer(unsigned status, std::string_view body = "{}", End how = End::complete) {
    REQUIRE(reader != nullptr);
    auto* asked = std::exchange(reader, nullptr);
    if (how == End::complete) {
      REQUIRE(asked->head({status, "application/json", std::nullopt}) == ReadControl::proceed);
      REQUIRE(asked->body(body) == ReadControl::proceed);
    }
    asked->end(how, "https://server");
  }
  /// Advances the clock to the alarm, and fires it.
  void wait() {
    now = rings_at;
    const auto action = std::exchange(ring, nullptr);
    action();
  }

  Time now{1'000};
  Time rings_at{0};
  std::function<void()> ring;
  std::vector<ApiRequest> requests;
  ResponseHandler* reader = nullptr;
};

}  // namespace lb::k8s::testing
