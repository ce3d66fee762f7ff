// SPDX-License-Identifier: Apache-2.0
// Cancellation: whether the compilation that the calling thread is in is to end (CompileOptions::isCancelled).
// The one thing to know: who finds it cancelled leaves soon, by whatever way leaves the module to be thrown away; the
// pipeline says kCancelled and where.
//
//   support::Cancellation cancellation(options.isCancelled);   // For a scope of the compiling thread.
//   if (support::isCancelled()) return support::cancelledStatus();
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "hpu/status.h"

namespace hpu::support {

/// Scopes nest: one without a function leaves the one around it. Destroy on the constructing thread.
class Cancellation {
 public:
  explicit Cancellation(const std::function<bool()>& ask) : ask_(ask), outer_(current()) {
    if (ask_) current() = this;
  }
  ~Cancellation() { current() = outer_; }
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  /// Asks; once it is true it stays so. Any thread, for those that help the compiling one.
  bool isCancelled() {
    if (!cancelled_.load(std::memory_order_relaxed) && ask_()) cancelled_.store(true, std::memory_order_relaxed);
    return cancelled_.load(std::memory_order_relaxed);
  }
  /// The innermost of the calling thread; null: nobody can cancel.
  static Cancellation*& current() {
    thread_local Cancellation* instance = nullptr;
    return instance;
  }

 private:
  const std::function<bool()>& ask_;
  Cancellation* const outer_;
  std::atomic<bool> cancelled_{false};
};

inline bool isCancelled() {
  Cancellation* current = Cancellation::current();
  return current && current->isCancelled();
}

inline Status cancelledStatus() {
  return cancelled("the compilation was cancelled");
}

}  // namespace hpu::support
