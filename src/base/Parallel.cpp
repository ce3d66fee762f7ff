// SPDX-License-Identifier: Apache-2.0
#include "base/Parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "base/ExitGate.h"
#include "base/FloatEnvironment.h"
#include "base/PerThread.h"
#include "base/Settings.h"
#include "base/Thread.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define HPU_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define HPU_TSAN_RELEASE(address) __tsan_release(address)
#else
#define HPU_TSAN_ACQUIRE(address) (void)(address)
#define HPU_TSAN_RELEASE(address) (void)(address)
#endif

namespace hpu::base {
namespace {

// More only cost memory; a thread that the system does not give ends the process inside of oneTBB.
constexpr int64_t kMaxThreads = 1024;

// What the innermost ThreadLimit of this thread says; 0: no limit.
thread_local int tlsLimit = 0;
// > 0 while this thread runs a chunk.
thread_local int tlsDepth = 0;

/// The process-wide default, read once: worker pools are sized when they are first used.
int defaultThreads() {
  static const int count = [] {
    int available = std::max(1, tbb::info::default_concurrency());
    auto wanted = settings::getInt(Setting::HPU_NUM_THREADS);
    // A bad value is reported where it can be returned (Device::open); here the default stands.
    int threads = wanted.ok() && *wanted > 0 ? static_cast<int>(std::min(*wanted, kMaxThreads)) : available;
    if (threads > available) {
      // oneTBB makes no more workers than CPUs unless it is told to.
      static tbb::global_control more(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
      renewExitGate();
    }
    return threads;
  }();
  return count;
}

/// One arena per calling thread, so that concurrent callers neither queue for each other's slots
/// nor pick up each other's chunks.
tbb::task_arena& arenaOfThisThread(int threads) {
  struct Arena {
    std::unique_ptr<tbb::task_arena> arena;
    int size = 0;
  };
  auto& [arena, size] = perThread<Arena>();
  if (!arena || size != threads) {
    arena = std::make_unique<tbb::task_arena>(threads);
    size = threads;
  }
  return *arena;
}

// Workers of this process that have run a chunk and have not ended, and whether this thread is one or a caller. oneTBB
// lets its workers go when no thread that has called it is left, and makes others for the next.
std::atomic<int> gWorkers{0};
thread_local bool tlsKnown = false;
struct CountedWorker {
  bool counted = false;
  ~CountedWorker() {
    if (counted) gWorkers.fetch_sub(1, std::memory_order_relaxed);
  }
};
thread_local CountedWorker tlsWorker;

/// While oneTBB may still make workers: they begin with the signal mask of the thread that makes them, which may be
/// one of the program. When all are there, a loop costs no system calls.
class WorkersWithoutSignals {
 public:
  WorkersWithoutSignals() {
    tlsKnown = true;
    if (gWorkers.load(std::memory_order_relaxed) < maxWorkers()) blocked_.emplace();
  }

 private:
  static int maxWorkers() {
    return static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)) - 1;
  }
  std::optional<internal::SignalsBlocked> blocked_;
};

struct DepthScope {
  DepthScope() {
    ++tlsDepth;
    if (tlsKnown) return;
    tlsKnown = tlsWorker.counted = true;
    gWorkers.fetch_add(1, std::memory_order_relaxed);
  }
  ~DepthScope() { --tlsDepth; }
};

void run(int64_t n, int64_t grain, FloatControl floats, FunctionRef<void(int64_t, int64_t)> body) {
  // ThreadSanitizer does not see oneTBB's own synchronisation (the library is not instrumented);
  // `fence` stands for it: caller -> chunks -> caller.
  char fence = 0;
  HPU_TSAN_RELEASE(&fence);
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, n, static_cast<size_t>(grain)),
                    [&](const tbb::blocked_range<int64_t>& range) {
                      HPU_TSAN_ACQUIRE(&fence);
                      {
                        DepthScope scope;
                        FloatScope control(floats);
                        body(range.begin(), range.end());
                      }
                      HPU_TSAN_RELEASE(&fence);
                    });
  HPU_TSAN_ACQUIRE(&fence);
}

}  // namespace

void parallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || numThreads() == 1) {
    body(0, n);
    return;
  }
  // Here: inside of an arena a thread has what the arena's maker had.
  const FloatControl floats = FloatControl::ofThread();
  if (tlsDepth > 0) {
    tbb::this_task_arena::isolate([&] { run(n, grain, floats, body); });
    return;
  }
  WorkersWithoutSignals workers;
  arenaOfThisThread(numThreads()).execute([&] { run(n, grain, floats, body); });
}

int numThreads() {
  if (tlsDepth > 0) {
    int arena = tbb::this_task_arena::max_concurrency();
    return std::max(1, tlsLimit > 0 ? std::min(arena, tlsLimit) : arena);
  }
  return tlsLimit > 0 ? tlsLimit : defaultThreads();
}

int threadIndex() {
  if (tlsDepth == 0) return 0;
  int index = tbb::this_task_arena::current_thread_index();
  return std::max(0, index);
}

ThreadLimit::ThreadLimit(int threads) : previous_(tlsLimit) {
  if (threads > 0) tlsLimit = threads;
}
ThreadLimit::~ThreadLimit() {
  tlsLimit = previous_;
}

}  // namespace hpu::base
