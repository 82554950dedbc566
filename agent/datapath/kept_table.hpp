// SPDX-License-Identifier: Apache-2.0
// A table of ours in nftables that exists while it is wanted: whoever flushes all rules, as nftables.service
// does at its start, deletes it, too, and it is made again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "agent/netlink/nf_table_watch.hpp"

namespace lb::agent {

class KeptTable {
 public:
  /// keep_nat() or keep_tracking().
  using Make = boost::system::error_code (*)(int family, std::string_view name);

  /// `check` decides whether the table is wanted, and calls make() or remove(). `consequence` is logged where
  /// the table cannot be made.
  KeptTable(boost::asio::io_context& context, std::string name, Make make_in_family,
            std::string_view consequence, std::function<void()> check);

  /// Calls `check` now, as soon as another program deletes the table, and every half minute, in case the
  /// kernel sends no notifications.
  void start();
  /// Whether the table exists in some family.
  [[nodiscard]] bool exists() const;
  /// Makes the table in both families unless it exists. Returns false, and warns once, if it cannot be made.
  [[nodiscard]] bool make();
  /// Removes the table; no-op if there is none.
  void remove();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  boost::asio::steady_timer timer_;
  NfTableWatch watch_;
  std::string name_;
  Make make_in_family_;
  std::string_view consequence_;
  std::function<void()> check_;
  std::string problem_;  ///< last logged problem
};

}  // namespace lb::agent
