// SPDX-License-Identifier: Apache-2.0
// EventWatcher: the thread of this process that hears when events of other processes are done, for streams and
// functions that wait for them.
// The one thing to know: there is one thread for all of them, as long as anything is waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hpu/external_work.h"
#include "hpu/status.h"
#include "runtime/event/SharedEvent.h"

namespace hpu {

class EventWatcher {
 public:
  using Told = std::function<void(const Status&)>;
  /// Calls `told` once, soon after the record is over or its process has ended: on the thread, which others wait for,
  /// or on the caller's when there can be no thread. Gives a number for forget(). Any thread. Throws std::bad_alloc.
  static uint64_t watch(std::shared_ptr<const OpenedEvent> event, uint64_t record, Told told);
  /// True: `told` has not been called, and will not be.
  static bool forget(uint64_t number);
};

/// A stream's wait for the record; with `onlyOrder` a failure of it is none of the stream.
std::shared_ptr<ExternalWork> openedEventWait(std::shared_ptr<const OpenedEvent> event, uint64_t record,
                                              bool onlyOrder);
/// Calls `told` when the record is over, on a thread for functions of the program (HostCalls).
void tellWhenOver(std::shared_ptr<const OpenedEvent> event, uint64_t record, std::function<void(const Status&)> told);

}  // namespace hpu
