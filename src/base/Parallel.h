// SPDX-License-Identifier: Apache-2.0
// parallelFor: the only way that OpenHPU runs loops on several threads (and the only user of
// oneTBB). The one thing to know: the body must not throw, and chunks run in any order on any
// thread, so results must not depend on the partition.
//
//   hpu::base::parallelFor(rows, /*grain=*/16, [&](int64_t begin, int64_t end) { ... });
#pragma once

#include <cstdint>

#include "base/FunctionRef.h"

namespace hpu::base {

/// Calls body(begin, end) for disjoint chunks that cover [0, n), on up to numThreads() threads, and
/// returns when all are done. Chunks hold at least `grain` (>= 1) iterations where n allows; n <=
/// grain runs on the caller. The body computes in the caller's floating-point environment on every thread. Nested calls
/// are fine: a thread that waits for an inner loop runs only iterations of that loop, so thread-local scratch of the
/// outer body is safe. Any thread may call.
void parallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

/// Threads that a parallelFor of the calling thread may use: the innermost ThreadLimit, else
/// HPU_NUM_THREADS, else the CPUs that this process may run on. At least 1.
int numThreads();

/// Index of the calling thread in the running parallelFor, in [0, numThreads()); 0 outside of one.
int threadIndex();

/// While alive, parallelFor calls of the constructing thread use at most `threads` threads; <= 0
/// changes nothing. Scopes nest; destroy on the constructing thread.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int previous_;
};

}  // namespace hpu::base
