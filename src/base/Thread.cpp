// SPDX-License-Identifier: Apache-2.0
#include "base/Thread.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/FloatEnvironment.h"

namespace hpu::base::internal {

SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t all;
  sigfillset(&all);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, own);
  ::pthread_sigmask(SIG_BLOCK, &all, &saved_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &saved_, nullptr);
}

void enterThread(const char* name) noexcept {
  // For as long as the thread runs: what it inherited is its maker's affair.
  FloatControl().apply();
  ::pthread_setname_np(::pthread_self(), name);
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return;
  void* stack = nullptr;
  size_t bytes = 0;
  // Advice: kernels without huge pages refuse it, and nothing is lost.
  if (::pthread_attr_getstack(&attributes, &stack, &bytes) == 0) {
    ::madvise(stack, bytes, MADV_NOHUGEPAGE);
  }
  ::pthread_attr_destroy(&attributes);
}

}  // namespace hpu::base::internal
