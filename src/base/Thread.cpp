// SPDX-License-Identifier: Apache-2.0
#include "base/Thread.h"

#include <pthread.h>
#include <sys/mman.h>

namespace hpu::base::internal {

void enterThread(const char* name) noexcept {
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
