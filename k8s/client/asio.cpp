// SPDX-License-Identifier: Apache-2.0
// Asio and Beast, compiled once: all other files include <boost/asio/...> and <boost/beast/...> and link
// this.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
