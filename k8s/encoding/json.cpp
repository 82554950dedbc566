// SPDX-License-Identifier: Apache-2.0
// Boost.JSON, compiled once: all other files include <boost/json/...> and link this.
#include <boost/json/src.hpp>
