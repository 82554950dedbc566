// SPDX-License-Identifier: Apache-2.0
// One canonical line per map entry, for goldens and unit tests: values of maps/abi/abi.h in, text out.
#pragma once

#include <string>
#include <string_view>

#include "maps/abi/abi.h"

namespace lb::test {

/// `frontend 10.96.0.10:80/TCP ClusterIP default/web:http`; node ports are at 0.0.0.0 and [::].
[[nodiscard]] std::string frontend_line(const lb_frontend_key& key, const lb_frontend& frontend,
                                        std::string_view service);
/// `service default/web:http TCP IPv4 cluster=6 local=2 internal=cluster external=local empty=reject/drop`,
/// then settings that differ from the default: `affinity=10800s`, `source-ranges`, `packet-path`. cluster=
/// and local= are slot counts; empty= is the verdict of the empty cluster set and of the empty local set.
[[nodiscard]] std::string service_line(const lb_name& name, const lb_service& service);
/// `backend default/web:http TCP 10.1.0.5:8080 same-zone cluster local serving`: the sets in which new flows
/// find it, and whether old UDP flows may stay; `weight=3` unless it is 1.
[[nodiscard]] std::string backend_line(const lb_name& name, const lb_backend& backend);

}  // namespace lb::test
