// What this library throws: only "cannot start". Everything later is a value.
#pragma once

#include <stdexcept>

namespace lb::k8s {

/// A source cannot start. what() is one sentence for the user that says what to do.
class StartError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lb::k8s
