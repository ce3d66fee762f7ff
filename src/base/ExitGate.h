// SPDX-License-Identifier: Apache-2.0
// The exit gate: stops the threads of the SDK before exit() destroys what they run on. Libraries free their memory
// there (libxsmm its compiled kernels) while other threads go on. The one thing to know: behind the gate only the
// thread that exits does work, when an exit handler of the program or the destructor of a static object waits for it.
//
//   base::stopAtExit(core);                           // A std::shared_ptr; forgotten when it is gone.
//   if (base::isExiting() && !base::isExitThread()) return;
#pragma once

#include <chrono>
#include <memory>

namespace hpu::base {

/// Something with threads. Called without locks, on the thread that exits.
class StopsAtExit {
 public:
  virtual ~StopsAtExit() = default;
  /// Begins nothing more from now on; does not wait.
  virtual void beginExit() noexcept = 0;
  /// Waits until nothing of it runs but what the calling thread is inside of; false: not by then.
  virtual bool awaitExit(std::chrono::steady_clock::time_point until) noexcept = 0;
  /// Does a piece of its work, if there is some; whether it did.
  virtual bool workAtExit() = 0;
  /// What runs of it, for the message of a process that waited for it in vain.
  virtual const char* nameAtExit() const noexcept { return "work of a device"; }
};

/// From now on it is stopped when the process exits. Of a forked child it is not. Any thread may call.
void stopAtExit(const std::shared_ptr<StopsAtExit>& stops);
/// The gate closes before what was registered with std::atexit up to now, or constructed, is destroyed: to be called
/// behind the initialisation of a library that work runs on. Any thread may call.
void renewExitGate() noexcept;

/// The gate is closed. A load; any thread may call.
bool isExiting() noexcept;
/// It is, and this is the thread that exits.
bool isExitThread() noexcept;
/// Work that has been given its time runs still: it is to end soon, unfinished. A load; never true for work that begins
/// behind the gate.
bool isCutShortByExit() noexcept;
/// Does a piece of the work of any of those that were stopped; false: there was none to do. On the thread that exits.
bool workAtExit();

}  // namespace hpu::base
