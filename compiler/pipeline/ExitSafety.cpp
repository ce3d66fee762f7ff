// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ExitSafety.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/ExitGate.h"
#include "base/StatusMacros.h"
#include "hpu/compiler.h"

namespace hpu::pipeline {
namespace {

/// Through every phase, and so through the code generator.
Status compileSomething() {
  Graph graph("first");
  HPU_ASSIGN(const Value x, graph.input("x", {ElementType::kF32, {64}}));
  HPU_ASSIGN(const Value y, graph.op("relu", {x}));
  HPU_RETURN_IF_ERROR(graph.output("y", y));
  CompileOptions options;
  options.cpu = "native";  // One image.
  return compile(graph, options).status();
}

thread_local bool isInside = false;

/// An exit that begins while a thread makes the static objects has no gate to wait at, for it closes behind them. It
/// waits where the library's own are destroyed: by then those of the program are, and those of MLIR and LLVM, which
/// were loaded before, are not.
struct Library {
  std::mutex mutex;
  std::condition_variable changed;
  int making = 0;     ///< Threads that make static objects. Guarded by mutex.
  bool ends = false;  ///< Nothing may use the library any more. Guarded by mutex.
};
Library& library() {
  static auto* const instance = new Library;
  return *instance;
}
/// Nobody waits for a thread of a process whose libraries are destroyed.
[[noreturn]] void waitForTheEnd() {
  for (;;) ::pause();
}
const struct EndsLibrary {
  EndsLibrary() { library(); }
  ~EndsLibrary() {
    constexpr std::chrono::seconds kPatience{10};
    std::unique_lock lock(library().mutex);
    library().ends = true;
    library().changed.wait_for(lock, kPatience, [] { return library().making == 0; });
  }
} endsLibrary;
/// For the scope of making them.
struct MakesStatics {
  MakesStatics() {
    std::unique_lock lock(library().mutex);
    if (library().ends) lock.unlock(), waitForTheEnd();
    ++library().making;
    isInside = true;
  }
  ~MakesStatics() {
    isInside = false;
    std::unique_lock lock(library().mutex);
    --library().making;
    library().changed.notify_all();
    if (library().ends) lock.unlock(), waitForTheEnd();
  }
};

/// How many compilations register the gate anew at their end: the first ones make static objects that the tiny one has
/// not.
std::atomic<int> renewals{32};

}  // namespace

void makeStaticsFirst() noexcept try {
  static std::atomic<bool> made{false};
  if (made.load(std::memory_order_acquire) || isInside || base::isExiting()) return;
  // Threads that come at the same time do the same.
  {
    MakesStatics makes;
    compileSomething().ignore();
  }
  base::renewExitGate();
  made.store(true, std::memory_order_release);
} catch (...) {
  // Without host memory; the compilation itself will say so.
}

/// Of the calling thread.
struct RunsUntilExit::Scope final : base::StopsAtExit {
  const std::thread::id thread = std::this_thread::get_id();
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;  // Guarded by mutex.

  void beginExit() noexcept override {}  // The compilation asks isToEnd().
  bool awaitExit(std::chrono::steady_clock::time_point until) noexcept override {
    if (thread == std::this_thread::get_id()) return true;
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, until, [&] { return ended; });
  }
  bool workAtExit() override { return false; }
  const char* nameAtExit() const noexcept override { return "a compilation"; }
};

RunsUntilExit::RunsUntilExit() {
  if (base::isExitThread()) return;
  // The main thread, which is the one that exits as a rule, saves the time.
  if (::gettid() != ::getpid()) makeStaticsFirst();
  scope_ = std::make_shared<Scope>();
  base::stopAtExit(scope_);
}

RunsUntilExit::~RunsUntilExit() {
  if (!scope_) return;
  {
    std::lock_guard lock(scope_->mutex);
    scope_->ended = true;
  }
  scope_->changed.notify_all();
  if (renewals.load(std::memory_order_relaxed) > 0 && renewals.fetch_sub(1) > 0) base::renewExitGate();
}

bool RunsUntilExit::isToEnd() const noexcept {
  return scope_ && base::isExiting();
}

}  // namespace hpu::pipeline
