// SPDX-License-Identifier: Apache-2.0
// ProgramFunctions: the functions of CompileOptions as the compiler calls them: what they throw ends the compilation,
// and so does the exit of the process. The one thing to know: the compiler is compiled without exceptions, so they must
// not pass through it; this is with them, and without MLIR.
//
//   ProgramFunctions functions(given);
//   StatusOr<CompileResult> result = work(functions.options());
//   if (Status thrown = functions.failure(); !thrown.ok()) return thrown;   // Whatever became of the rest.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>

#include "compiler/pipeline/ExitSafety.h"
#include "compiler/support/Cancellation.h"
#include "hpu/compiler.h"

namespace hpu::pipeline {

/// Lives as long as its options are used; any thread may call those.
class ProgramFunctions {
 public:
  /// `given` stays valid. Of the compiling thread: where isCancelled is empty, the cancellation around it counts.
  explicit ProgramFunctions(const CompileOptions& given);
  ProgramFunctions(const ProgramFunctions&) = delete;
  ProgramFunctions& operator=(const ProgramFunctions&) = delete;

  /// `given` with functions that do not throw; after one has thrown, isCancelled is true.
  const CompileOptions& options() const { return made_; }
  /// The process exits: what is begun now, it does not wait for.
  bool isTooLate() const noexcept { return runs_.isToEnd(); }
  /// "CompileOptions::onPhase (phase fuse) has thrown: ...", of the first that has; ok when none has.
  Status failure() const;

 private:
  void fail(Status why);

  const CompileOptions& given_;
  support::Cancellation* const outer_ = support::Cancellation::current();
  CompileOptions made_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // Guards the failure.
  Status failure_;
  const RunsUntilExit runs_;  ///< Ends first: the compilation is over.
};

}  // namespace hpu::pipeline
