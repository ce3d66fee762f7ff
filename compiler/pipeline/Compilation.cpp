// SPDX-License-Identifier: Apache-2.0
// Compilation (hpu/compiler.h): a thread, what it compiles, and those who wait for it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/ExitGate.h"
#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/ProgramCall.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "compiler/import/ShareGraph.h"
#include "compiler/pipeline/ExitSafety.h"
#include "compiler/support/KnownOptions.h"
#include "hpu/compiler.h"

namespace hpu {
namespace {

/// What the thread and the handles share.
struct Shared final : base::StopsAtExit {
  std::atomic<bool> cancelled{false};
  std::atomic<std::thread::id> thread{};  ///< That compiles.
  const base::Birthplace birthplace;

  mutable std::mutex mutex;  // Guards the following.
  mutable std::condition_variable changed;
  std::optional<StatusOr<CompileResult>> result;
  std::vector<UnsupportedNode> unsupported;
  std::string phase;
  std::vector<std::function<void()>> callbacks;
  bool ended = false;  ///< The thread does nothing more but go.

  void beginExit() noexcept override { cancelled = true; }
  bool awaitExit(std::chrono::steady_clock::time_point until) noexcept override {
    if (thread.load() == std::this_thread::get_id()) return true;
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, until, [&] { return ended; });
  }
  bool workAtExit() override { return false; }
  const char* nameAtExit() const noexcept override { return "a compilation"; }
};

/// A function of the program; no call returns what it throws.
void call(const std::function<void()>& told) noexcept {
  base::callProgramOrLog("Compilation::onDone", told);
}

using Compile = std::function<StatusOr<CompileResult>(const CompileOptions&, std::vector<UnsupportedNode>*)>;

/// The thread.
void run(const std::shared_ptr<Shared>& shared, Compile compile, CompileOptions options) {
  shared->thread = std::this_thread::get_id();
  const std::vector<std::string> names = phaseNames();
  options.isCancelled = [shared = shared.get(), also = std::move(options.isCancelled)] {
    return shared->cancelled.load(std::memory_order_relaxed) || (also && also());
  };
  options.onPhase = [shared = shared.get(), names, also = std::move(options.onPhase)](const PhaseInfo& info) {
    {
      auto next = std::find(names.begin(), names.end(), info.name);
      if (next != names.end()) ++next;
      std::lock_guard lock(shared->mutex);
      shared->phase = next == names.end() ? std::string() : *next;
    }
    if (also) also(info);
  };
  std::vector<UnsupportedNode> unsupported;
  StatusOr<CompileResult> result = [&]() -> StatusOr<CompileResult> {
    try {
      return compile(options, &unsupported);
    } catch (const std::bad_alloc&) {
      return resourceExhausted("out of host memory for the compilation");
    } catch (const std::exception& error) {
      return internalError(std::string("the compilation has thrown: ") + error.what());
    }
  }();
  compile = nullptr;  // The graph may be its own last handle.
  options = {};
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->unsupported = std::move(unsupported);
    shared->phase.clear();
    callbacks = std::move(shared->callbacks);
    shared->callbacks.clear();
  }
  shared->changed.notify_all();
  for (std::function<void()>& told : callbacks) {
    call(told);
    told = nullptr;  // It may let go of the last handle.
  }
  {
    std::lock_guard lock(shared->mutex);
    shared->ended = true;
  }
  shared->changed.notify_all();
}

}  // namespace

struct Compilation::State {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::thread thread;

  ~State() {
    shared->cancelled = true;
    if (!thread.joinable()) return;
    // A function of onDone let go of the last handle; or this is a static object's, and the exit has waited for the
    // thread as long as it does.
    if (thread.get_id() == std::this_thread::get_id() ||
        (base::isExitThread() && !shared->awaitExit(std::chrono::steady_clock::now())))
      thread.detach();
    else
      thread.join();
  }

  static StatusOr<std::shared_ptr<State>> begin(Compile compile, const CompileOptions& options, std::string phase) {
    auto state = base::makeProcessOwned<State>();
    state->shared->phase = std::move(phase);
    pipeline::makeStaticsFirst();
    base::stopAtExit(state->shared);
    try {
      state->thread = base::startThread(
          "hpu-compile", [shared = state->shared, compile = std::move(compile), options = options]() mutable {
            run(shared, std::move(compile), std::move(options));
          });
    } catch (const std::system_error&) {
      return resourceExhausted("cannot start a thread for the compilation: the system has no more threads");
    }
    return state;
  }
};

Compilation::Compilation() = default;
Compilation::~Compilation() = default;

StatusOr<Compilation> Compilation::start(const Graph& graph, const CompileOptions& given, size_t givenBytes) {
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  const CompileOptions& options = *known;
  // The program's may go; it is not changed meanwhile.
  HPU_ASSIGN(Graph same, importer::shareGraph(graph));
  auto shared = std::make_shared<Graph>(std::move(same));
  Compilation compilation;
  HPU_ASSIGN(compilation.state_,
             State::begin([shared](const CompileOptions& options, auto*) { return compile(*shared, options); }, options,
                          options.startFrom.empty() ? "normalize" : options.startFrom));
  return compilation;
}

StatusOr<Compilation> Compilation::startFile(const std::string& path, const CompileOptions& given, size_t givenBytes) {
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  Compilation compilation;
  const auto work = [path](const CompileOptions& options, std::vector<UnsupportedNode>* unsupported) {
    return compileFile(path, options, unsupported);
  };
  HPU_ASSIGN(compilation.state_, State::begin(work, *known, "import"));
  return compilation;
}

bool Compilation::done() const {
  if (!state_ || !state_->shared->birthplace.isHere()) return false;
  std::lock_guard lock(state_->shared->mutex);
  return state_->shared->result.has_value();
}

StatusOr<CompileResult> Compilation::result(int64_t deadlineMs) const {
  if (!state_) return failedPrecondition("the Compilation is empty: it was not started");
  const Shared& shared = *state_->shared;
  if (!shared.birthplace.isHere())
    return failedPrecondition("the compilation goes on in the process that this one was forked from; start one here");
  std::unique_lock lock(shared.mutex);
  const auto done = [&] { return shared.result.has_value(); };
  if (!done() && shared.thread.load() == std::this_thread::get_id())
    return failedPrecondition("a function that a compilation calls cannot wait for its result");
  if (deadlineMs < 0) {
    shared.changed.wait(lock, done);
  } else {
    constexpr int64_t kLongestMs = int64_t{1} << 40;
    if (!shared.changed.wait_for(lock, std::chrono::milliseconds(std::min(deadlineMs, kLongestMs)), done))
      return deadlineExceeded(base::strCat("the compilation is not done after ", deadlineMs, " ms",
                                           shared.phase.empty() ? "" : " (it is in the phase " + shared.phase + ")",
                                           "; wait longer, or cancel it"));
  }
  return *shared.result;
}

void Compilation::cancel() const {
  if (state_) state_->shared->cancelled = true;
}

void Compilation::onDone(std::function<void()> told) const {
  // The function may let go of this very handle before the call has returned.
  const std::shared_ptr<Shared> shared = state_ ? state_->shared : nullptr;
  if (!shared || !told || !shared->birthplace.isHere()) return;
  {
    std::lock_guard lock(shared->mutex);
    if (!shared->result) {
      shared->callbacks.push_back(std::move(told));
      return;
    }
  }
  call(told);
}

std::string Compilation::phase() const {
  if (!state_ || !state_->shared->birthplace.isHere()) return {};
  std::lock_guard lock(state_->shared->mutex);
  return state_->shared->phase;
}

std::vector<UnsupportedNode> Compilation::unsupported() const {
  if (!state_ || !state_->shared->birthplace.isHere()) return {};
  std::lock_guard lock(state_->shared->mutex);
  return state_->shared->unsupported;
}

}  // namespace hpu
