// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/FailingNew.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int left = -1;  // Allocations until the one that fails; -1: none does.

}  // namespace

namespace hpu::testing {

void failAllocation(int nth) {
  left = nth;
}

bool allocationFailed() {
  const bool failed = left < 0;
  left = -1;
  return failed;
}

}  // namespace hpu::testing

void* operator new(std::size_t bytes) {
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return left >= 0 && left-- == 0 ? nullptr : std::malloc(bytes ? bytes : 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
