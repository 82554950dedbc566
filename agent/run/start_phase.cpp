// SPDX-License-Identifier: Apache-2.0
#include "agent/run/start_phase.hpp"

namespace lb::agent {

bool StartPhase::set_network_known() {
  if (phase_ != Phase::starting) {
    return false;
  }
  phase_ = Phase::planning;
  return true;
}

void StartPhase::wrote(const Moment& now, const Backlog& left) {
  if (!first_batch_) {
    first_batch_ = now;
  }
  if (phase_ == Phase::planning && !left.turns) {
    phase_ = Phase::attaching;
  }
}

void StartPhase::attached() { phase_ = Phase::serving; }

bool StartPhase::check_ready(const Backlog& left, const Moment& now) {
  if (phase_ == Phase::serving) {
    const bool whole = !left.objects && !left.labels && !left.turns && !left.tables;
    const bool waited = now.steady - first_batch_->steady >= max_start;
    if (whole || waited || before_ == Readiness::before) {
      phase_ = Phase::ready;
    }
  }
  return is_ready();
}

StartStep StartPhase::step(const Backlog& left) const {
  if (phase_ == Phase::ready) {
    return StartStep::serving;
  }
  if (phase_ == Phase::starting) {
    return StartStep::network;
  }
  if (!first_batch_) {
    return left.objects ? StartStep::objects : StartStep::plan;
  }
  if (phase_ != Phase::serving) {
    return StartStep::plan;
  }
  if (left.labels) {
    return StartStep::labels;
  }
  return left.turns ? StartStep::turns : StartStep::tables;
}

}  // namespace lb::agent
