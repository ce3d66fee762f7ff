// SPDX-License-Identifier: Apache-2.0
// ExitSafety: a process may exit while a compilation runs on another thread than the one that exits. The one thing to
// know: exit() destroys static objects in the reverse order of their making, so those that a compilation reads (MLIR's
// table of type IDs, LLVM's options) have to be made before the exit gate is registered (base/ExitGate.h), which waits
// for the compilation.
//
//   pipeline::makeStaticsFirst();          // Then the thread of the compilation is started.
//   pipeline::RunsUntilExit runs;          // For the scope of a compilation.
#pragma once

#include <memory>

namespace hpu::pipeline {

/// The first call in a process compiles a tiny graph, later ones return at once. Any thread may call; inside
/// itself it does nothing. What it cannot make for want of memory is made later.
void makeStaticsFirst() noexcept;

/// Makes those of MLIR and LLVM that are cheap, for a process that exits while another thread is in makeStaticsFirst():
/// made as the library is loaded, they are destroyed last. True.
bool makeLlvmStatics();

/// As the process exits on another thread, it waits until this is destroyed.
class RunsUntilExit {
 public:
  RunsUntilExit();
  ~RunsUntilExit();
  RunsUntilExit(const RunsUntilExit&) = delete;
  RunsUntilExit& operator=(const RunsUntilExit&) = delete;

  /// The process exits, and did not when this began: the compilation is to end. A load; any thread may call.
  bool isToEnd() const noexcept;

 private:
  struct Scope;
  std::shared_ptr<Scope> scope_;  ///< Null on the thread that exits.
};

}  // namespace hpu::pipeline
