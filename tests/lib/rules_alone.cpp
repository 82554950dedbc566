// SPDX-License-Identifier: Apache-2.0
// Plans one Service by the rules alone, without the model of all Services: that this links is what it tests.
#include "tests/lib/whole_plan.hpp"

int main() {
  lb::k8s::Service service;
  service.key = {"default", "web"};
  service.cluster_ips = {lb::k8s::Address::parse("10.96.0.1").value()};
  service.ports = {{"http", lb::k8s::Protocol::tcp, 80, 0}};
  return lb::test::whole_plan(service, {}, {}, {}).size() == 1 ? 0 : 1;
}
