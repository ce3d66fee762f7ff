// SPDX-License-Identifier: Apache-2.0
// startThread: a thread of the SDK's own, with a name and a stack of small pages. It takes no signals but those that it
// causes itself, and computes in the default floating-point environment, whatever its maker has set.
//
//   std::thread thread = base::startThread("hpu-heart", [this] { loop(); });
//
// The one thing to know: where the system gives huge pages to all memory, it makes 2 MiB of a stack
// of which 8 KiB are used, and keeps a core from the program for up to 1 ms while it clears them.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace hpu::base {
namespace internal {
void enterThread(const char* name) noexcept;
/// Blocks the program's signals for the calling thread while it lives: threads that are made meanwhile begin so.
/// Signals that an instruction or abort() causes are not blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};
/// Leak checkers know it by its name (tests/sanitizers/lsan.supp), which no function of the thread
/// itself has.
template <typename Body>
[[gnu::noinline]] std::thread handToThread(Body body) {
  SignalsBlocked blocked;
  return std::thread(std::move(body));
}
}  // namespace internal

/// `name` (a literal of up to 15 characters) is what debuggers and top(1) show.
/// Throws std::system_error as std::thread does.
template <typename Function>
std::thread startThread(const char* name, Function function) {
  return internal::handToThread([name, function = std::move(function)]() mutable {
    internal::enterThread(name);
    function();
  });
}

}  // namespace hpu::base
