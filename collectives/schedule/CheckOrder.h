// SPDX-License-Identifier: Apache-2.0
// The part of the check that is about order: deadlock, and what comes before what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/schedule/Messages.h"
#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// Step `reader` reads in place what step `receive` received: the message's sender waits for it.
struct InPlaceReader {
  int32_t reader = 0, receive = 0;
};

/// An order in which the steps can begin (receives: be done) when a send is done only after its
/// receive and the receive's readers in place, and a pair's next send begins only after that.
/// Errors: kInternal, naming the steps that wait for each other.
StatusOr<std::vector<int32_t>> orderSteps(const Schedule& schedule, const Messages& messages,
                                          const Dependents& dependents, std::span<const InPlaceReader> readers);

/// Answers whether a step waits for another one of its rank, directly or not.
class Ancestry {
 public:
  explicit Ancestry(const Schedule& schedule) : schedule_(schedule) {}
  bool isBefore(int32_t early, int32_t late);

 private:
  const Schedule& schedule_;
  std::vector<uint32_t> seen_;
  uint32_t mark_ = 0;
  std::vector<int32_t> stack_;
};

/// By step: whether every rank's beginning comes before the last steps of each rank, through
/// messages; what a barrier must do. Errors: kInternal, naming two ranks.
Status checkBarrier(const Schedule& schedule, const Messages& messages, std::span<const int32_t> order);

}  // namespace hpu::collectives
