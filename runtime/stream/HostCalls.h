// SPDX-License-Identifier: Apache-2.0
// HostCalls: the thread on which a device runs functions of the program (Stream::callHost, onDone), one after another.
// The one thing to know: a function that waits for its own device would wait for itself; waits there are refused
// (runtime/driver/Callback.h). When the process exits no more of them begin, but on the thread that exits, when
// it waits for them (base/ExitGate.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hpu/external_work.h"
#include "hpu/status.h"

namespace hpu {

/// Any thread may call anything. What was added runs before the last share is gone, or, when a function itself lets go
/// of the last share, on the same thread soon after; behind the exit gate perhaps not at all.
class HostCalls {
 public:
  HostCalls();
  ~HostCalls();
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  /// Runs it after all that was added before. Without a thread (the host has none) on the caller's.
  void add(std::function<void()> function);

 private:
  struct Queue;
  const std::shared_ptr<Queue> queue_;
};

/// `function` at its turn in a stream, which goes on when it has returned.
std::shared_ptr<ExternalWork> hostCall(std::shared_ptr<HostCalls> calls, std::function<Status()> function,
                                       std::string name);
/// `told` when everything before it in a stream is done, or will not be; the stream does not wait for it.
std::shared_ptr<ExternalWork> completionCall(std::shared_ptr<HostCalls> calls, std::function<void(const Status&)> told);

}  // namespace hpu
